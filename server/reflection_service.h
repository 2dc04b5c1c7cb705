// grpc.reflection.v1alpha.ServerReflection of our own: gRPC's is there as soon as it is linked, whatever the setting
// says, and answers callers without credentials.
#ifndef ATTEND_SERVER_REFLECTION_SERVICE_H_
#define ATTEND_SERVER_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/connection_watch.h"
#include "server/metrics.h"
#include "server/security.h"

namespace attend::server {

// Describes everything that is linked into the program. Thread-safe.
class ReflectionService final : public grpc::reflection::v1alpha::ServerReflection::CallbackService {
 public:
  // `services` are the full names of those that are offered; the rest outlives the service.
  ReflectionService(std::vector<std::string> services, const Security& security, ConnectionWatch& connections,
                    Metrics& metrics)
      : services_(std::move(services)), security_(security), connections_(connections), metrics_(metrics) {}

  // UNAUTHENTICATED for callers that have no right to call.
  grpc::ServerBidiReactor<grpc::reflection::v1alpha::ServerReflectionRequest,
                          grpc::reflection::v1alpha::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;

  // NOT_FOUND in an error_response for what is not there, INVALID_ARGUMENT for a request that asks for nothing.
  grpc::reflection::v1alpha::ServerReflectionResponse Answer(
      const grpc::reflection::v1alpha::ServerReflectionRequest& request) const;

 private:
  class Reactor;

  const std::vector<std::string> services_;
  const Security& security_;
  ConnectionWatch& connections_;
  Metrics& metrics_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_REFLECTION_SERVICE_H_
