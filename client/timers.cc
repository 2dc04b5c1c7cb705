#include "client/timers.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <utility>

namespace attend::client {
namespace {

class GrpcTimers final : public Timers {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  std::function<void()> RunAfter(absl::Duration delay, std::function<void()> task) override {
    auto alarm = std::make_shared<grpc::Alarm>();
    const gpr_timespec when =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(absl::ToInt64Nanoseconds(delay), GPR_TIMESPAN));
    // The alarm owns this function and this function the alarm: running it, which happens exactly once, breaks the
    // ring.
    alarm->Set(when, [alarm, task = std::move(task)](bool) mutable {
      const std::shared_ptr<grpc::Alarm> last = std::move(alarm);
      task();
    });
    return [weak = std::weak_ptr<grpc::Alarm>(alarm)] {
      if (const std::shared_ptr<grpc::Alarm> still_set = weak.lock()) still_set->Cancel();
    };
  }
};

}  // namespace

Timers& Timers::Grpc() {
  static GrpcTimers* const timers = new GrpcTimers;  // never destroyed: alarms may run until the process ends
  return *timers;
}

}  // namespace attend::client
