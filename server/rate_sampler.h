// Lets through at most so many events in each second, and counts the others.
#ifndef ATTEND_SERVER_RATE_SAMPLER_H_
#define ATTEND_SERVER_RATE_SAMPLER_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "absl/time/time.h"

namespace attend::server {

// Thread-safe.
class RateSampler {
 public:
  explicit RateSampler(int64_t events_per_second) : events_per_second_(events_per_second) {}

  // How many events were skipped since the last one that passed, if this one at `now` passes; nothing if it is skipped.
  std::optional<int64_t> Admit(absl::Time now);

 private:
  const int64_t events_per_second_;
  std::mutex mutex_;
  absl::Time second_ = absl::InfinitePast();  // when the present second began
  int64_t passed_ = 0;                        // in it
  int64_t skipped_ = 0;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_RATE_SAMPLER_H_
