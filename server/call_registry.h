// The calls in flight, and whether new ones are taken: what draining waits for.
#ifndef ATTEND_SERVER_CALL_REGISTRY_H_
#define ATTEND_SERVER_CALL_REGISTRY_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/time/time.h"

namespace attend::server {

// Thread-safe.
class CallRegistry {
 public:
  // Counts a call. False, and nothing is counted, once the registry is closed.
  bool Enter();
  // A counted call is over.
  void Leave();

  // No call enters any more.
  void Close();

  // Waits until no call is in flight. False if some still are after `timeout`.
  bool AwaitNone(absl::Duration timeout);

  int64_t in_flight() const;
  int64_t entered() const;  // since the start

 private:
  mutable std::mutex mutex_;
  std::condition_variable none_left_;
  int64_t in_flight_ = 0;
  int64_t entered_ = 0;
  bool closed_ = false;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_CALL_REGISTRY_H_
