// When memory that nobody uses goes back to the system.
#ifndef ATTEND_SERVER_IDLE_MEMORY_H_
#define ATTEND_SERVER_IDLE_MEMORY_H_

#include <cstdint>

#include "absl/time/time.h"

namespace attend::server {

// Blocks are kept for the next request; those that no request took for a while are from a burst that is over.
// Not thread-safe.
class IdleMemory {
 public:
  // Idle blocks go back after this long without use.
  explicit IdleMemory(absl::Duration patience) : patience_(patience) {}

  // Told now and then how many bytes are idle; true if they should go back now.
  bool ShouldTrim(absl::Time now, int64_t idle_bytes);

 private:
  const absl::Duration patience_;
  absl::Time since_ = absl::InfiniteFuture();  // since when some bytes have been idle at every look
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_IDLE_MEMORY_H_
