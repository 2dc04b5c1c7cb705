// How much the server has taken on, and how fast it gets through it: what is refused, and when to come back.
//
// Shared by the receive gate and by admission, because one limit (max_queued_requests) holds for the calls that wait at
// either. Pure logic: no thread, no timer.
#ifndef ATTEND_SERVER_BACKLOG_H_
#define ATTEND_SERVER_BACKLOG_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <random>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/clock.h"

namespace attend::server {

// When to try again, of a status made by a Backlog; nothing of any other.
std::optional<absl::Duration> SuggestedRetryDelay(const absl::Status& status);

// Thread-safe.
class Backlog {
 public:
  struct Options {
    // Calls that may wait at once: at the receive gate and for bytes, together.
    int64_t max_queued_requests = 0;
    // How many workers compute.
    int workers = 1;
    // Multiply-adds per second of a warm problem on all workers, in the fastest native element type: what is believed
    // until jobs have been measured, and the least that the machine is ever believed to be capable of.
    double initial_rate = 1;
    // Outlives the backlog.
    const core::Clock* clock = &core::Clock::Steady();
    uint64_t seed = 0;  // of the random factor of retry delays
  };

  explicit Backlog(const Options& options);

  // For calls at their headers, before anything is kept for them. RESOURCE_EXHAUSTED if calls wait and no further one
  // may. It names value and limit, carries a Violation (QUEUE_FULL) and a SuggestedRetryDelay: the predicted time until
  // there is room, from 50 ms to 10 s, times a random factor of 0.8 to 1.2. Callers refused in a row are sent to
  // different moments, one for each place that is predicted to become free.
  absl::Status CheckRoom();

  // Counts one more call that waits; each OK needs one LeaveQueue. RESOURCE_EXHAUSTED as from CheckRoom.
  absl::Status JoinQueue();
  void LeaveQueue();

  // Work that was admitted, and that is over, done or not.
  void AddWork(int64_t multiply_adds);
  void RemoveWork(int64_t multiply_adds);

  // A job that ran to its end: what it computed, and the time that workers together spent in its tiles.
  void RecordJob(int64_t multiply_adds, absl::Duration busy);

  // DEADLINE_EXCEEDED if `deadline` has passed, or is sure to pass: the whole machine at the fastest rate measured
  // lately would not finish `multiply_adds` in time (judged only once 20 jobs have been recorded).
  absl::Status CheckDeadline(int64_t multiply_adds, absl::Time deadline) const;

  int64_t queued() const;  // calls that wait, for the metrics

 private:
  // All under the lock.
  absl::Status Refuse(absl::Time now);
  absl::Duration PredictDeparture() const;

  const Options options_;
  mutable std::mutex mutex_;
  int64_t queued_ = 0;
  int64_t admitted_jobs_ = 0;
  double admitted_work_ = 0;
  double usual_rate_;              // of the whole machine, a moving average
  std::deque<double> last_rates_;  // of the whole machine, the latest jobs
  int64_t recorded_jobs_ = 0;
  absl::Time promised_until_ = absl::InfinitePast();  // the last moment that a refused caller was sent to
  std::mt19937_64 random_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_BACKLOG_H_
