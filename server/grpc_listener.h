// The gRPC server itself: its connections, limits and services.
#ifndef ATTEND_SERVER_GRPC_LISTENER_H_
#define ATTEND_SERVER_GRPC_LISTENER_H_

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/connection_acceptor.h"
#include "server/connection_watch.h"
#include "server/listening_address.h"
#include "server/settings.h"

namespace attend::server {

class GrpcListener {
 public:
  // What gRPC needs besides the messages being received: buffers of connections, metadata, small calls.
  static constexpr int64_t kQuotaBesidesMessages = int64_t{64} << 20;

  struct Services {
    std::vector<grpc::Service*> named;
    grpc::CallbackGenericService* generic = nullptr;
    std::shared_ptr<grpc::ServerCredentials> credentials;  // of every connection
    ConnectionWatch* connections = nullptr;                // is told of every connection
  };

  using Addresses = std::vector<std::unique_ptr<ListeningAddress>>;

  // Serves the connections to `addresses` from the return on; none gets a descriptor of `descriptor_end` or beyond.
  // `services` outlive the listener. INTERNAL if gRPC does not start, RESOURCE_EXHAUSTED if there is no descriptor
  // left.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Create(const Settings& settings, const Services& services,
                                                              Addresses addresses, int descriptor_end);

  // Stops listening, cancels what is in flight and waits for it.
  ~GrpcListener();

  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // The addresses as set, with the ports that are listened on.
  std::vector<std::string> addresses() const;
  // The first TCP one, or the first of all.
  std::string main_address() const;

  // Connects to the main address and waits until connections are accepted. UNAVAILABLE or DEADLINE_EXCEEDED, with the
  // reason, if that fails within `timeout`. Thread-safe.
  absl::Status CheckAccepts(absl::Duration timeout);

  // Thread-safe.
  ConnectionAcceptor& acceptor() { return *acceptor_; }

 private:
  explicit GrpcListener(Addresses addresses) : addresses_(std::move(addresses)) {}
  const ListeningAddress& MainAddress() const;
  absl::Status Start(const Settings& settings, const Services& services, int descriptor_end);
  void Serve(Descriptor connection, int listener);
  void StartPolling();

  Addresses addresses_;
  ConnectionWatch* watch_ = nullptr;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;  // into server_
  std::unique_ptr<grpc::ServerCompletionQueue> poll_queue_;  // empty: those who wait for it poll for all connections
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> pollers_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_GRPC_LISTENER_H_
