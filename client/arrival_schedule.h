// When the calls of an open loop are to be sent: at a constant rate, whatever the server does.
#ifndef ATTEND_CLIENT_ARRIVAL_SCHEDULE_H_
#define ATTEND_CLIENT_ARRIVAL_SCHEDULE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/time/time.h"

namespace attend::client {

class ArrivalSchedule {
 public:
  // `rate` calls a second, more than 0; the first at `start`.
  ArrivalSchedule(absl::Time start, double rate) : start_(start), rate_(rate) {}

  // When call number `call` (from 0) is due.
  absl::Time At(int64_t call) const { return start_ + absl::Seconds(static_cast<double>(call) / rate_); }

  // How many calls are due before `time`.
  int64_t DueBefore(absl::Time time) const {
    const double calls = std::ceil(absl::ToDoubleSeconds(time - start_) * rate_ - 1e-9);
    return std::max<int64_t>(0, static_cast<int64_t>(calls));
  }

 private:
  absl::Time start_;
  double rate_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ARRIVAL_SCHEDULE_H_
