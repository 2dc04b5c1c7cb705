// The threads that compute. All jobs share them tile by tile: no batching delay, no head-of-line blocking.
//
// Shares. Each job has a weight, 2^((5 - priority) / 2). Before every tile a worker takes the job whose work done so
// far, divided by its weight, is smallest (start-time fair queueing, Goyal et al. 1996); a new job starts level with
// the least-served active one, so it can neither starve others nor be starved. A job of one tile is done after at most
// 2 + (active jobs) foreign tiles per worker.
//
// Sleep. A worker without work waits on a futex (std::atomic::wait); a submission wakes as many as it has tiles for.
//
// Callers. A thread that has to wait for a job anyway may compute it: Run() takes the place of a worker that sleeps, so
// that a small job needs no other thread at all, and no more threads compute than there are workers. A thread that must
// not wait may do the same with a job that takes less time than waking a worker: SubmitHere().
#ifndef ATTEND_CORE_COMPUTE_POOL_H_
#define ATTEND_CORE_COMPUTE_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "core/tile_source.h"

namespace attend::core {

// Where a job's time went, by the pool's clock.
struct JobTimings {
  absl::Duration queue;       // from Submit to the first tile
  absl::Duration pack;        // of the time from first to last tile, the workers' share spent packing
  absl::Duration compute;     // the rest of it
  absl::Duration busy;        // worker time in its tiles, all workers together
  int64_t multiply_adds = 0;  // of the tiles that ran
};

class ComputePool {
 public:
  struct Options {
    int workers = 1;                        // at least 1
    const Clock* clock = &Clock::Steady();  // outlives the pool
  };

  struct Job {
    // Gone before `done` is called.
    std::unique_ptr<TileSource> source;
    // 1, the largest share, to 9.
    int priority = 5;
    // Looked at between tiles.
    absl::Time deadline = absl::InfiniteFuture();
    // Called exactly once, on a worker or a caller that works, with OK, the source's own status, CANCELLED or
    // DEADLINE_EXCEEDED. Must not block; may call Submit, Cancel and Post.
    std::function<void(const absl::Status&, const JobTimings&)> done = {};
  };
  using JobId = uint64_t;  // never 0, never used twice

  // INVALID_ARGUMENT for fewer than one worker; RESOURCE_EXHAUSTED if threads cannot be made.
  static absl::StatusOr<std::unique_ptr<ComputePool>> Create(const Options& options);

  // Cancels what is left (every `done` is called) and joins the workers.
  ~ComputePool();

  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  // All of these are thread-safe, and all but Run never wait for a tile.

  // Starts a job.
  JobId Submit(Job job);

  // Computes a job and returns the status that it ends with. The caller works on it in the place of a worker that has
  // nothing to do, if there is one and for as long as no other job or task wants the place; meanwhile its OpenMP
  // threads and floating-point environment are those of a worker, so that results have the same bits. `done` may be
  // empty, and is called before the return, on the caller or on a worker. Not to be called by tasks and by `done`, nor
  // while the pool is being destroyed.
  absl::Status Run(Job job);

  // Starts a job like Submit, and computes it on the caller like Run, but never waits: what is blocked, or left when
  // others want the place, is the workers'. So `done` is called before the return, on the caller, or later on a worker.
  // For jobs of a few microseconds, which a caller that must not block can spare. Not to be called by tasks and `done`.
  JobId SubmitHere(Job job);

  // Abandons a job within one tile: `done` is called with CANCELLED, unless it was finished already. A job that is not
  // there any more is ignored.
  void Cancel(JobId id);

  // Runs `task` on a worker before further tiles: for short work (splitting and encoding messages, at most about a
  // millisecond) that must leave its caller's thread. Tasks run in order of posting, several at a time; a worker that
  // ran eight in a row runs a tile, so that tasks never starve tiles. Tasks still waiting when the pool ends are run
  // before the destructor returns.
  void Post(std::function<void()> task);

  int workers() const;
  int64_t active_jobs() const;
  // Worker time spent in tiles and tasks since the start.
  absl::Duration busy_time() const;
  // Since when the longest-waiting active job has not advanced: InfiniteFuture without active jobs.
  absl::Time oldest_progress() const;
  // When the oldest active job was submitted: InfiniteFuture without active jobs.
  absl::Time oldest_submission() const;

 private:
  class Scheduler;
  explicit ComputePool(std::unique_ptr<Scheduler> scheduler);
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_COMPUTE_POOL_H_
