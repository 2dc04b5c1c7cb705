// Many timeouts on one thread, most of which never expire: what each call that is being received has.
//
// Cheaper than a gRPC alarm for each: that would cost every call several hand-overs between threads. The thread looks
// at least once a second and so need not be woken for a timeout that is further away.
#ifndef ATTEND_SERVER_DEADLINE_WATCH_H_
#define ATTEND_SERVER_DEADLINE_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace attend::server {

// Thread-safe.
class DeadlineWatch {
 public:
  // Names a timeout; made by Add.
  using Id = std::pair<absl::Time, uint64_t>;

  DeadlineWatch();
  // What has not expired by then never does.
  ~DeadlineWatch();

  DeadlineWatch(const DeadlineWatch&) = delete;
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;

  // `expired` is called once at `deadline`, on the watch's thread, unless Remove comes first. It must not block.
  Id Add(absl::Time deadline, std::function<void()> expired);

  // Does not wait for a callback that is running; one that has run is ignored.
  void Remove(const Id& id);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Id, std::function<void()>> pending_;
  uint64_t next_number_ = 0;
  absl::Time next_look_ = absl::InfinitePast();  // when the thread will look by itself
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_DEADLINE_WATCH_H_
