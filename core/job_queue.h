// The compute pool's jobs and whose turn it is: start-time fair queueing. job_queue.cc opens with how it works.
#ifndef ATTEND_CORE_JOB_QUEUE_H_
#define ATTEND_CORE_JOB_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/compute_pool.h"
#include "core/tile_source.h"

namespace attend::core {

// A job from Submit until `done` is called.
struct ActiveJob {
  ComputePool::JobId id = 0;
  ComputePool::Job job;

  // Whose turn it is.
  double weight = 1;
  double virtual_time = 0;      // work done / weight, from the level it started at
  double last_tile = 0;         // what its latest tile added to virtual_time
  int inside = 0;               // workers in Step, and holds
  std::vector<bool> exhausted;  // [workers]: has nothing left for this worker
  int exhausted_workers = 0;
  bool contended = false;              // a worker found it blocked and may be asleep for it
  std::optional<absl::Status> ending;  // how it ends; no worker enters any more

  // Its times.
  absl::Time submitted;
  absl::Time first_tile = absl::InfiniteFuture();   // start of its first tile
  absl::Time last_tile_end = absl::InfinitePast();  // end of its latest tile
  absl::Duration busy;
  absl::Duration packing;
  int64_t multiply_adds = 0;
};

// One worker's call of Step.
struct TileRun {
  int worker = 0;
  TileSource::StepResult result;
  absl::Time begin;
  absl::Time end;
};

// `job`'s times, for a job that is over at `now`.
JobTimings TimingsOf(const ActiveJob& job, absl::Time now);

// Not thread-safe: the pool's lock guards it. Every operation but the last two takes O(log jobs) time, save that Pick
// steps over jobs that have nothing for its worker.
class JobQueue {
 public:
  explicit JobQueue(int workers) : workers_(workers) {}

  // The job stays where it is until it is taken out.
  ActiveJob& Add(ComputePool::JobId id, ComputePool::Job job, absl::Time now);

  // The job that `worker` should step next, now counted as inside; null if no job but those in `blocked` has anything
  // for it.
  ActiveJob* Pick(int worker, const std::vector<ComputePool::JobId>& blocked);

  // Counts a worker that steps this very job as inside, whosever turn it is.
  void Enter(ActiveJob& job);

  // A worker has left `job`: accounts for its tile. Where that was the last worker of a job that ends, the job is over.
  void Leave(ActiveJob& job, const TileRun& run);

  // Between the two the job is not over, whatever happens to it.
  void Hold(ActiveJob& job);
  void LetGo(ActiveJob& job);

  // Lets no worker into the job any more; it is over once none is inside. A job that ends already, or that is not
  // there, is left as it is.
  void End(ComputePool::JobId id, absl::Status status);
  void EndAll(const absl::Status& status);
  // Ends those whose deadline is at or before `now`.
  void EndExpired(absl::Time now);

  // Takes out a job that is over, for its `done` to be called; null if there is none.
  std::unique_ptr<ActiveJob> TakeOver();
  // The same for this very job, which is over.
  std::unique_ptr<ActiveJob> TakeOver(const ActiveJob& job);
  bool IsOver(const ActiveJob& job) const { return job.ending.has_value() && job.inside == 0; }
  bool has_over() const { return !over_.empty(); }

  bool empty() const { return jobs_.empty(); }
  int64_t size() const { return static_cast<int64_t>(jobs_.size()); }  // those over but not yet taken out included
  // O(1) and O(jobs); InfiniteFuture without jobs.
  absl::Time OldestSubmission() const;
  absl::Time OldestProgress() const;

 private:
  struct TurnOrder {
    bool operator()(const ActiveJob* a, const ActiveJob* b) const;
  };

  void End(ActiveJob& job, absl::Status status);
  void Count(ActiveJob& job, const TileRun& run) const;
  void ChangeInside(ActiveJob& job, int by);
  void CheckEmptied(ActiveJob& job);
  void ForgetLag(const std::vector<ActiveJob*>& passed_over);

  const int workers_;
  std::map<ComputePool::JobId, std::unique_ptr<ActiveJob>> jobs_;  // by age
  std::set<ActiveJob*, TurnOrder> turns_;                          // those that do not end
  std::set<std::pair<absl::Time, ComputePool::JobId>> deadlines_;  // of those that do not end, finite ones
  std::deque<ActiveJob*> over_;
  double virtual_now_ = 0;               // the furthest virtual time at which a tile was started
  std::vector<ActiveJob*> passed_over_;  // Pick's, kept for its memory
};

}  // namespace attend::core

#endif  // ATTEND_CORE_JOB_QUEUE_H_
