#include "server/call_registry.h"

namespace attend::server {

bool CallRegistry::Enter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return false;
  ++in_flight_;
  ++entered_;
  return true;
}

void CallRegistry::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--in_flight_ == 0) none_left_.notify_all();
}

void CallRegistry::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
}

bool CallRegistry::AwaitNone(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return none_left_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] { return in_flight_ == 0; });
}

int64_t CallRegistry::in_flight() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return in_flight_;
}

int64_t CallRegistry::entered() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return entered_;
}

}  // namespace attend::server
