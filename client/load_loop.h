// Keeps calls in flight and measures them: as many as fit (closed loop), or at a given rate (open loop).
#ifndef ATTEND_CLIENT_LOAD_LOOP_H_
#define ATTEND_CLIENT_LOAD_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "client/arrival_schedule.h"
#include "client/load_clock.h"
#include "client/load_measurement.h"

namespace attend::client {

// How long a loop runs: until the first of the two.
struct LoopLimits {
  absl::Duration duration = absl::InfiniteDuration();
  int64_t count = std::numeric_limits<int64_t>::max();
};

struct LoopOutcome {
  LoadMeasurement measurement;           // of all answers
  std::vector<LoadMeasurement> by_kind;  // by CallRecord::kind; empty if there is one kind
  // From the start to the last answer, and at least as long as calls were sent: what rates are counted over.
  absl::Duration elapsed;
  int64_t unsent = 0;     // open loop: due before the end, but `in_flight` calls were waiting already
  int64_t abandoned = 0;  // in flight when the loop was interrupted: cancelled, neither OK nor failed
  bool interrupted = false;
};

class LoadLoop {
 public:
  // Starts call number `call`; calls `done` exactly once, on any thread, even before it returns. Its own result cancels
  // the call.
  using Done = std::function<void(CallRecord)>;
  using Starter = std::function<std::function<void()>(int64_t call, Done done)>;

  struct Options {
    size_t kinds = 1;   // of calls: see CallRecord
    int in_flight = 1;  // calls at once: exactly so many in a closed loop, at most so many in an open one
    std::optional<double> rate = std::nullopt;                 // calls a second: an open loop
    std::function<bool()> interrupted = [] { return false; };  // asked often: ends the loop
    std::function<void(const LoadMeasurement&, absl::Duration)> progress =
        nullptr;  // called often, with the time so far
  };

  LoadLoop(Starter starter, Options options, LoadClock& clock = LoadClock::Steady());

  // Runs until a limit is reached or the loop is interrupted, and waits for every call in flight. In an open loop the
  // latency of a call counts from when it was due, even if it could not be sent then (no coordinated omission). After
  // an UNAVAILABLE a closed loop pauses for kPause, so that a server that is gone is not asked as fast as one can fail.
  LoopOutcome Run(const LoopLimits& limits);

  static constexpr absl::Duration kPause = absl::Milliseconds(50);

 private:
  struct Answer {
    int64_t call;
    CallRecord record;
    absl::Time time;
  };

  void Send(std::unique_lock<std::mutex>& lock, absl::Time due);
  void TakeAnswers(LoopOutcome& outcome);
  void CancelAll(std::unique_lock<std::mutex>& lock);
  // When the next call is due.
  absl::Time NextDue(absl::Time now) const;

  const Starter starter_;
  const Options options_;
  LoadClock& clock_;

  // Of the current run; what callbacks touch is guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Answer> answers_;
  std::unordered_map<int64_t, absl::Time> due_;                    // of the calls in flight
  std::unordered_map<int64_t, std::function<void()>> cancellers_;  // likewise
  std::optional<ArrivalSchedule> schedule_;
  int64_t sent_ = 0;
  absl::Time pause_until_;
  absl::Time last_answer_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_LOOP_H_
