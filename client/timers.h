// The client's clock and its alarms. Virtual, so that no test waits for a backoff.
#ifndef ATTEND_CLIENT_TIMERS_H_
#define ATTEND_CLIENT_TIMERS_H_

#include <functional>

#include "absl/time/time.h"

namespace attend::client {

// Thread-safe.
class Timers {
 public:
  virtual ~Timers() = default;

  // Never goes back; only differences mean something.
  virtual absl::Time Now() const = 0;

  // Calls `task` exactly once, never before RunAfter returns to this thread's caller on this thread: after `delay` on a
  // thread of the timers' own, or soon after the result is called.
  virtual std::function<void()> RunAfter(absl::Duration delay, std::function<void()> task) = 0;

  // Timers of gRPC's, which lives as long as a channel does.
  static Timers& Grpc();
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_TIMERS_H_
