#include "client/call_board.h"

#include <utility>
#include <vector>

namespace attend::client {

uint64_t CallBoard::Add(std::shared_ptr<RetriedCall> call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cancelled_) call->Cancel();  // before its start: it ends with its first attempt
  calls_.emplace(next_id_, std::move(call));
  return next_id_++;
}

void CallBoard::Remove(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  calls_.erase(id);
  // Under the lock: whoever waits for the last call destroys this object next.
  changed_.notify_all();
}

void CallBoard::CancelAll() {
  std::vector<std::shared_ptr<RetriedCall>> calls;
  std::unique_lock<std::mutex> lock(mutex_);
  cancelled_ = true;
  for (const auto& [id, call] : calls_) calls.push_back(call);
  lock.unlock();
  for (const std::shared_ptr<RetriedCall>& call : calls) call->Cancel();
  lock.lock();
  changed_.wait(lock, [this] { return calls_.empty(); });
}

}  // namespace attend::client
