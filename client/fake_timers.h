// Timers that stand still until a test moves them. For tests.
#ifndef ATTEND_CLIENT_FAKE_TIMERS_H_
#define ATTEND_CLIENT_FAKE_TIMERS_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client/timers.h"

namespace attend::client {

// Not thread-safe. Outlives the functions that RunAfter returns.
class FakeTimers final : public Timers {
 public:
  absl::Time Now() const override { return now_; }

  std::function<void()> RunAfter(absl::Duration delay, std::function<void()> task) override {
    delays_.push_back(delay);
    const int id = next_id_++;
    tasks_[id] = {now_ + delay, std::move(task)};
    return [this, id] {
      if (const auto found = tasks_.find(id); found != tasks_.end()) found->second.first = now_;
      RunDue();
    };
  }

  // Moves time and runs what is due.
  void Advance(absl::Duration duration) {
    now_ += duration;
    RunDue();
  }

  // Every delay asked for so far.
  const std::vector<absl::Duration>& delays() const { return delays_; }

 private:
  void RunDue() {
    for (auto due = tasks_.begin(); due != tasks_.end();) {
      if (due->second.first > now_) {
        ++due;
        continue;
      }
      const std::function<void()> task = std::move(due->second.second);
      tasks_.erase(due);
      task();
      due = tasks_.begin();  // the task may have changed the map
    }
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  int next_id_ = 0;
  std::map<int, std::pair<absl::Time, std::function<void()>>> tasks_;
  std::vector<absl::Duration> delays_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_FAKE_TIMERS_H_
