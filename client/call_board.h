// The calls of one client that are in flight, so that destroying the client can end them.
#ifndef ATTEND_CLIENT_CALL_BOARD_H_
#define ATTEND_CLIENT_CALL_BOARD_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "client/retried_call.h"

namespace attend::client {

// Thread-safe.
class CallBoard {
 public:
  // Notes a call; it is cancelled at once if CancelAll has been called.
  uint64_t Add(std::shared_ptr<RetriedCall> call);

  // The call's callback has returned.
  void Remove(uint64_t id);

  // Cancels every call, now and later, and waits until all are removed.
  void CancelAll();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  uint64_t next_id_ = 0;
  std::map<uint64_t, std::shared_ptr<RetriedCall>> calls_;  // shared: each also keeps itself alive until it is over
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_CALL_BOARD_H_
