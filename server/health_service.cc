#include "server/health_service.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace attend::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

bool IsKnown(const std::string& service) { return service.empty() || service == "attend.v1.AttentionService"; }

}  // namespace

// One Watch call. Only the newest state is worth sending: one that comes while another is being written waits, and
// replaces what waits already.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(HealthService& service, std::string peer, bool known)
      : service_(service), peer_(std::move(peer)), known_(known) {
    service_.connections_.BeginCall(peer_);
    if (known_) {
      service_.Add(this);
    } else {
      Send(HealthCheckResponse::SERVICE_UNKNOWN);
    }
  }

  void Send(ServingStatus status) {
    std::lock_guard<std::mutex> lock(mutex_);
    next_ = status;
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (ok) {
      WriteNext();
    } else {
      FinishOnce();
    }
  }

  void OnCancel() override {
    std::lock_guard<std::mutex> lock(mutex_);
    FinishOnce();
  }

  void OnDone() override {
    if (known_) service_.Remove(this);
    service_.connections_.EndCall(peer_);
    service_.metrics_.CountRequest(Method::kHealthWatch, absl::StatusCode::kCancelled, absl::Now() - start_);
    delete this;
  }

 private:
  void WriteNext() {
    if (writing_ || finished_ || !next_) return;
    message_.set_status(*next_);
    next_.reset();
    writing_ = true;
    StartWrite(&message_);
  }

  // A watch ends only when its caller goes away or the server does.
  void FinishOnce() {
    if (finished_) return;
    finished_ = true;
    Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the watch has ended"));
  }

  HealthService& service_;
  const std::string peer_;
  const bool known_;
  const absl::Time start_ = absl::Now();
  std::mutex mutex_;
  HealthCheckResponse message_;  // being written
  std::optional<ServingStatus> next_;
  bool writing_ = false;
  bool finished_ = false;
};

void HealthService::SetServing(bool serving) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (serving_ == serving) return;
  serving_ = serving;
  for (Watcher* watcher : watchers_) watcher->Send(status());
}

void HealthService::Add(Watcher* watcher) {
  std::lock_guard<std::mutex> lock(mutex_);
  watchers_.insert(watcher);
  watcher->Send(status());
}

void HealthService::Remove(Watcher* watcher) {
  std::lock_guard<std::mutex> lock(mutex_);
  watchers_.erase(watcher);
}

HealthService::ServingStatus HealthService::status() const {
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  const absl::Time start = absl::Now();
  connections_.CountCall(context->peer());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool known = IsKnown(request->service());
  if (known) {
    std::lock_guard<std::mutex> lock(mutex_);
    response->set_status(status());
  }
  reactor->Finish(known ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service"));
  metrics_.CountRequest(Method::kHealthCheck, known ? absl::StatusCode::kOk : absl::StatusCode::kNotFound,
                        absl::Now() - start);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(grpc::CallbackServerContext* context,
                                                                    const HealthCheckRequest* request) {
  return new Watcher(*this, context->peer(), IsKnown(request->service()));
}

}  // namespace attend::server
