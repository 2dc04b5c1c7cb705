#include "server/idle_memory.h"

#include <algorithm>

namespace attend::server {

bool IdleMemory::ShouldTrim(absl::Time now, int64_t idle_bytes) {
  if (idle_bytes == 0) {
    since_ = absl::InfiniteFuture();
    return false;
  }
  since_ = std::min(since_, now);
  if (now - since_ < patience_) return false;
  since_ = absl::InfiniteFuture();
  return true;
}

}  // namespace attend::server
