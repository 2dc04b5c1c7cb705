// grpc.health.v1.Health of our own: gRPC's built-in one has no descriptors, so that reflection cannot describe it.
#ifndef ATTEND_SERVER_HEALTH_SERVICE_H_
#define ATTEND_SERVER_HEALTH_SERVICE_H_

#include <mutex>
#include <set>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/connection_watch.h"
#include "server/metrics.h"

namespace attend::server {

// Knows two services, the server as a whole ("") and attend.v1.AttentionService, which are always in the same state.
// Check of any other: NOT_FOUND; Watch of any other: SERVICE_UNKNOWN, as the health protocol has it. Thread-safe.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // `connections` and `metrics` outlive the service. Not serving at first.
  HealthService(ConnectionWatch& connections, Metrics& metrics) : connections_(connections), metrics_(metrics) {}

  // Every watcher hears of a change.
  void SetServing(bool serving);

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context, const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // Adds a watcher and tells it the present state, before or after any change but not between.
  void Add(Watcher* watcher);
  void Remove(Watcher* watcher);
  ServingStatus status() const;  // with mutex_ held

  ConnectionWatch& connections_;
  Metrics& metrics_;
  std::mutex mutex_;
  bool serving_ = false;
  std::set<Watcher*> watchers_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_HEALTH_SERVICE_H_
