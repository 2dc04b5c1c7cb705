// The clock that core looks at between tiles: one of the project's three virtual seams, so that no test sleeps.
#ifndef ATTEND_CORE_CLOCK_H_
#define ATTEND_CORE_CLOCK_H_

#include "absl/time/time.h"

namespace attend::core {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back. Thread-safe.
  virtual absl::Time Now() const = 0;

  // The machine's steady clock, anchored to absl::Now() at first use. Lives forever.
  static const Clock& Steady();
};

}  // namespace attend::core

#endif  // ATTEND_CORE_CLOCK_H_
