#include "client/delivery.h"

#include <utility>

namespace attend::client {

std::shared_ptr<const void> Delivery::HoldMemory() {
  return std::shared_ptr<const void>(this, [self = shared_from_this()](const void*) { self->MemoryIsFree(); });
}

void Delivery::SetOutcome(CallOutcome outcome, std::function<void(CallOutcome)> done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_) {
      outcome_ = std::move(outcome);
      done_ = std::move(done);
      return;
    }
  }
  done(std::move(outcome));
}

void Delivery::MemoryIsFree() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_ = true;
    if (!outcome_) return;
  }
  timers_.RunAfter(absl::ZeroDuration(), [self = shared_from_this()] { self->done_(*std::move(self->outcome_)); });
}

}  // namespace attend::client
