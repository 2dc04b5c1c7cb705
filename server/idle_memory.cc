#include "server/idle_memory.h"

#include <algorithm>

namespace attend::server {

bool IdleMemory::ShouldTrim(const Look& look) {
  blocks_idle_since_ = look.idle_bytes > 0 ? std::min(blocks_idle_since_, look.now) : absl::InfiniteFuture();
  const bool came = look.calls != last_calls_;
  last_calls_ = look.calls;
  used_ = used_ || came;
  quiet_since_ = came || look.in_flight > 0 ? absl::InfiniteFuture() : std::min(quiet_since_, look.now);
  const bool blocks_are_stale = look.now - blocks_idle_since_ >= patience_;
  const bool heap_is_stale = used_ && look.now - quiet_since_ >= patience_;
  if (!blocks_are_stale && !heap_is_stale) return false;
  blocks_idle_since_ = absl::InfiniteFuture();
  quiet_since_ = absl::InfiniteFuture();
  used_ = false;
  return true;
}

}  // namespace attend::server
