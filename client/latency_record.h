// How long calls took, and what fraction took how long at most.
#ifndef ATTEND_CLIENT_LATENCY_RECORD_H_
#define ATTEND_CLIENT_LATENCY_RECORD_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/time/time.h"

namespace attend::client {

// Keeps every latency, so that percentiles are exact, up to a bound; beyond it a uniform random sample of them
// (Vitter's algorithm R), while count, mean and maximum stay exact. Not thread-safe.
class LatencyRecord {
 public:
  static constexpr int64_t kDefaultCapacity = 4'000'000;  // 32 MB

  explicit LatencyRecord(int64_t capacity = kDefaultCapacity) : capacity_(capacity) {}

  void Add(absl::Duration latency);

  int64_t count() const { return count_; }
  // All 0 without latencies.
  absl::Duration max() const { return absl::Seconds(max_); }
  absl::Duration mean() const;
  // The smallest latency that at least `percent` % of all do not exceed (nearest rank); percent in (0, 100].
  absl::Duration Percentile(double percent) const;

 private:
  int64_t capacity_;
  int64_t count_ = 0;
  double sum_ = 0;  // seconds, like those that follow
  double max_ = 0;
  mutable std::vector<double> kept_;  // in any order; sorted when a percentile is asked for
  mutable bool sorted_ = false;
  std::minstd_rand random_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LATENCY_RECORD_H_
