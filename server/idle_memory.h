// When memory that nobody uses goes back to the system.
#ifndef ATTEND_SERVER_IDLE_MEMORY_H_
#define ATTEND_SERVER_IDLE_MEMORY_H_

#include <cstdint>

#include "absl/time/time.h"

namespace attend::server {

// Blocks are kept for the next request; those that no request took for a while are from a burst that is over. Memory
// that gRPC received messages into goes through malloc, which keeps it too: it is looked at once calls have ended and
// none is in flight. Not thread-safe.
class IdleMemory {
 public:
  // What is idle goes back after this long without use.
  explicit IdleMemory(absl::Duration patience) : patience_(patience) {}

  // What is known at one moment.
  struct Look {
    absl::Time now;
    int64_t idle_bytes = 0;  // of blocks kept
    int64_t calls = 0;       // that have begun since the start
    int64_t in_flight = 0;   // of them
  };

  // Told about once a second; true if idle memory should go back now.
  bool ShouldTrim(const Look& look);

 private:
  const absl::Duration patience_;
  absl::Time blocks_idle_since_ = absl::InfiniteFuture();  // some at every look since
  absl::Time quiet_since_ = absl::InfiniteFuture();        // no call in flight at any look since
  int64_t last_calls_ = 0;                                 // at the last look
  bool used_ = false;                                      // calls came since the last trim
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_IDLE_MEMORY_H_
