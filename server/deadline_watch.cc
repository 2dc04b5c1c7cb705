#include "server/deadline_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace attend::server {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);

}  // namespace

DeadlineWatch::DeadlineWatch() : thread_([this] { Run(); }) {}

DeadlineWatch::~DeadlineWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

DeadlineWatch::Id DeadlineWatch::Add(absl::Time deadline, std::function<void()> expired) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Id id(deadline, next_number_++);
  pending_.emplace(id, std::move(expired));
  if (deadline < next_look_) changed_.notify_one();
  return id;
}

void DeadlineWatch::Remove(const Id& id) {
  std::function<void()> dropped;  // destroyed without the lock: it may be the last to hold something
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  dropped = std::move(found->second);
  pending_.erase(found);
}

void DeadlineWatch::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    const absl::Time now = absl::Now();
    if (!pending_.empty() && pending_.begin()->first.first <= now) {
      const std::function<void()> expired = std::move(pending_.begin()->second);
      pending_.erase(pending_.begin());
      lock.unlock();
      expired();
      lock.lock();
      continue;
    }
    next_look_ = now + kLookInterval;
    if (!pending_.empty()) next_look_ = std::min(next_look_, pending_.begin()->first.first);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(next_look_ - now));
  }
}

}  // namespace attend::server
