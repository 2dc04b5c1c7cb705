// The calls of one client that are in progress, so that destroying the client can cancel them.
#ifndef ATTEND_CLIENT_CALL_BOARD_H_
#define ATTEND_CLIENT_CALL_BOARD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "client/retried_call.h"

namespace attend::client {

// Thread-safe.
class CallBoard {
 public:
  // Notes a call before its start; it is cancelled at once if CancelAll has been called.
  uint64_t Add(const std::shared_ptr<RetriedCall>& call);

  // The call is over.
  void Remove(uint64_t id);

  // Cancels every call, now and later.
  void CancelAll();

 private:
  std::mutex mutex_;
  bool cancelled_ = false;
  uint64_t next_id_ = 0;
  std::map<uint64_t, std::weak_ptr<RetriedCall>> calls_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_CALL_BOARD_H_
