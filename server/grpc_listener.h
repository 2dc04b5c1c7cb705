// The gRPC server itself: its ports, limits and services.
#ifndef ATTEND_SERVER_GRPC_LISTENER_H_
#define ATTEND_SERVER_GRPC_LISTENER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/settings.h"

namespace attend::server {

class GrpcListener {
 public:
  struct Services {
    std::vector<grpc::Service*> named;
    grpc::CallbackGenericService* generic = nullptr;
  };

  // Listens and serves from the return on. `services` outlive the listener. UNAVAILABLE, with address and reason, if an
  // address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Create(const Settings& settings, const Services& services);

  // Cancels what is in flight and waits for it.
  ~GrpcListener();

  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // The addresses as set, with the ports that are listened on.
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  GrpcListener(std::unique_ptr<grpc::Server> server, std::vector<std::string> addresses);
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_GRPC_LISTENER_H_
