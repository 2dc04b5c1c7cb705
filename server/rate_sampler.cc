#include "server/rate_sampler.h"

#include <utility>

namespace attend::server {

std::optional<int64_t> RateSampler::Admit(absl::Time now) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (now - second_ >= absl::Seconds(1)) {
    second_ = now;
    passed_ = 0;
  }
  if (passed_ >= events_per_second_) {
    ++skipped_;
    return std::nullopt;
  }
  ++passed_;
  return std::exchange(skipped_, 0);
}

}  // namespace attend::server
