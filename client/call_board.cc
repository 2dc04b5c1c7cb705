#include "client/call_board.h"

#include <utility>

namespace attend::client {

uint64_t CallBoard::Add(const std::shared_ptr<RetriedCall>& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cancelled_) call->Cancel();  // it ends with its first attempt
  calls_.emplace(next_id_, call);
  return next_id_++;
}

void CallBoard::Remove(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  calls_.erase(id);
}

void CallBoard::CancelAll() {
  std::map<uint64_t, std::weak_ptr<RetriedCall>> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    calls = calls_;
  }
  for (const auto& [id, weak] : calls) {
    if (const std::shared_ptr<RetriedCall> call = weak.lock()) call->Cancel();
  }
}

}  // namespace attend::client
