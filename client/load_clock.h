// The clock of a load test. Virtual, so that no test waits.
#ifndef ATTEND_CLIENT_LOAD_CLOCK_H_
#define ATTEND_CLIENT_LOAD_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace attend::client {

// Thread-safe.
class LoadClock {
 public:
  virtual ~LoadClock() = default;

  // Never goes back; only differences mean something.
  virtual absl::Time Now() = 0;

  // Waits until `changed` is notified (or for no reason), at the latest until `time`. `lock` is held before and after.
  virtual void WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, absl::Time time) = 0;

  // The machine's steady clock.
  static LoadClock& Steady();
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_CLOCK_H_
