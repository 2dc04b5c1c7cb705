#include "client/latency_record.h"

#include <algorithm>
#include <cmath>

namespace attend::client {

void LatencyRecord::Add(absl::Duration latency) {
  const double seconds = absl::ToDoubleSeconds(latency);
  ++count_;
  sum_ += seconds;
  max_ = std::max(max_, seconds);
  sorted_ = false;
  if (static_cast<int64_t>(kept_.size()) < capacity_) {
    kept_.push_back(seconds);
    return;
  }
  const int64_t slot = std::uniform_int_distribution<int64_t>(0, count_ - 1)(random_);
  if (slot < capacity_) kept_[static_cast<size_t>(slot)] = seconds;
}

absl::Duration LatencyRecord::mean() const {
  return count_ == 0 ? absl::ZeroDuration() : absl::Seconds(sum_ / static_cast<double>(count_));
}

absl::Duration LatencyRecord::Percentile(double percent) const {
  if (kept_.empty()) return absl::ZeroDuration();
  if (!sorted_) std::sort(kept_.begin(), kept_.end());
  sorted_ = true;
  const double rank = std::ceil(percent / 100 * static_cast<double>(kept_.size()));
  const double last = static_cast<double>(kept_.size());
  return absl::Seconds(kept_[static_cast<size_t>(std::clamp(rank, 1.0, last)) - 1]);
}

}  // namespace attend::client
