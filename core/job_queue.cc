// Start-time fair queueing (Goyal, Vin and Cheng, 1996), over tiles.
//
// Each job has a virtual time: the work of its tiles so far divided by its weight. The job with the smallest goes next,
// so that virtual times keep together and work is shared by weight. Work is charged when a tile ends, as it is known
// only then; until then jobs at the same virtual time are told apart by how many workers are inside, so that workers
// spread over them, and then by age.
//
// A new job starts at the smallest virtual time among those active. No job is behind it, so each other one runs at most
// one tile per worker before the new job's first; and it is not ahead, so it takes nothing from others for the time
// before it came. Without active jobs virtual time starts anew.
//
// Several workers add one difficulty: a job that cannot use every worker (it is blocked, or has work left for one
// worker only) falls behind while others are served, through no fault of theirs. Its arrears would be a debt to be paid
// later: it, and every new job that starts level with it, would shut out the others for as long as it takes to catch
// up. So whenever a worker passes over a job for want of something to do there, the job's arrears are cut down to one
// tile. One tile, not none: it still comes first on the workers that it can use.
#include "core/job_queue.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace attend::core {
namespace {

double WeightOf(int priority) { return std::exp2((5 - std::clamp(priority, 1, 9)) / 2.0); }

}  // namespace

JobTimings TimingsOf(const ActiveJob& job, absl::Time now) {
  JobTimings timings;
  // A worker reads the clock before it takes the job, so that a job just submitted may seem to start before it came.
  timings.queue = std::max(absl::ZeroDuration(), std::min(job.first_tile, now) - job.submitted);
  timings.busy = job.busy;
  timings.multiply_adds = job.multiply_adds;
  if (job.last_tile_end <= job.first_tile) return timings;
  const absl::Duration wall = job.last_tile_end - job.first_tile;
  if (job.busy > absl::ZeroDuration()) timings.pack = wall * absl::FDivDuration(job.packing, job.busy);
  timings.compute = wall - timings.pack;
  return timings;
}

bool JobQueue::TurnOrder::operator()(const ActiveJob* a, const ActiveJob* b) const {
  return std::tie(a->virtual_time, a->inside, a->id) < std::tie(b->virtual_time, b->inside, b->id);
}

ActiveJob& JobQueue::Add(ComputePool::JobId id, ComputePool::Job job, absl::Time now) {
  if (jobs_.empty()) virtual_now_ = 0;
  auto active = std::make_unique<ActiveJob>();
  active->id = id;
  active->weight = WeightOf(job.priority);
  active->virtual_time = turns_.empty() ? virtual_now_ : (*turns_.begin())->virtual_time;
  active->exhausted.resize(static_cast<size_t>(workers_));
  active->submitted = now;
  active->job = std::move(job);
  turns_.insert(active.get());
  if (active->job.deadline < absl::InfiniteFuture()) deadlines_.emplace(active->job.deadline, id);
  return *jobs_.emplace_hint(jobs_.end(), id, std::move(active))->second;
}

ActiveJob* JobQueue::Pick(int worker, const std::vector<ComputePool::JobId>& blocked) {
  passed_over_.clear();
  const auto has_something = [&](const ActiveJob* job) {
    return !job->exhausted[static_cast<size_t>(worker)] &&
           std::find(blocked.begin(), blocked.end(), job->id) == blocked.end();
  };
  auto turn = turns_.begin();
  for (; turn != turns_.end() && !has_something(*turn); ++turn) passed_over_.push_back(*turn);
  if (turn == turns_.end()) return nullptr;
  ActiveJob* const job = *turn;
  Enter(*job);
  ForgetLag(passed_over_);
  return job;
}

void JobQueue::Enter(ActiveJob& job) {
  ChangeInside(job, 1);
  virtual_now_ = std::max(virtual_now_, job.virtual_time);
}

// Its place in the order of turns follows.
void JobQueue::ChangeInside(ActiveJob& job, int by) {
  auto node = job.ending.has_value() ? decltype(turns_)::node_type() : turns_.extract(&job);
  job.inside += by;
  if (!node.empty()) turns_.insert(std::move(node));
}

void JobQueue::ForgetLag(const std::vector<ActiveJob*>& passed_over) {
  for (ActiveJob* const job : passed_over) {
    const double least = virtual_now_ - job->last_tile;
    if (job->virtual_time >= least) continue;
    auto node = turns_.extract(job);
    job->virtual_time = least;
    turns_.insert(std::move(node));
  }
}

void JobQueue::Leave(ActiveJob& job, const TileRun& run) {
  auto node = job.ending.has_value() ? decltype(turns_)::node_type() : turns_.extract(&job);
  --job.inside;
  Count(job, run);
  if (!node.empty()) turns_.insert(std::move(node));
  CheckEmptied(job);
}

void JobQueue::Count(ActiveJob& job, const TileRun& run) const {
  if (run.result.outcome == TileSource::Outcome::kAdvanced) {
    // At least 1, so that no job runs forever at one virtual time.
    job.last_tile = static_cast<double>(std::max<int64_t>(run.result.multiply_adds, 1)) / job.weight;
    job.virtual_time += job.last_tile;
    job.multiply_adds += run.result.multiply_adds;
    job.first_tile = std::min(job.first_tile, run.begin);
    job.last_tile_end = std::max(job.last_tile_end, run.end);
    job.busy += run.end - run.begin;
    if (run.result.packing) job.packing += run.end - run.begin;
  } else if (run.result.outcome == TileSource::Outcome::kExhausted) {
    std::vector<bool>::reference exhausted = job.exhausted[static_cast<size_t>(run.worker)];
    if (!exhausted) ++job.exhausted_workers;
    exhausted = true;
  }
}

void JobQueue::CheckEmptied(ActiveJob& job) {
  if (job.inside > 0) return;
  if (job.ending.has_value()) {
    over_.push_back(&job);
  } else if (job.exhausted_workers == workers_) {
    End(job, absl::InternalError("a job has unfinished tiles and no worker that could run them"));
  }
}

void JobQueue::Hold(ActiveJob& job) { ChangeInside(job, 1); }

void JobQueue::LetGo(ActiveJob& job) {
  ChangeInside(job, -1);
  CheckEmptied(job);
}

void JobQueue::End(ComputePool::JobId id, absl::Status status) {
  if (const auto found = jobs_.find(id); found != jobs_.end()) End(*found->second, std::move(status));
}

void JobQueue::End(ActiveJob& job, absl::Status status) {
  if (job.ending.has_value()) return;
  turns_.erase(&job);
  deadlines_.erase({job.job.deadline, job.id});
  job.ending = std::move(status);
  if (job.inside == 0) over_.push_back(&job);
}

void JobQueue::EndAll(const absl::Status& status) {
  for (const auto& [id, job] : jobs_) End(*job, status);
}

void JobQueue::EndExpired(absl::Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    End(deadlines_.begin()->second, absl::DeadlineExceededError("the deadline passed before the computation ended"));
  }
}

std::unique_ptr<ActiveJob> JobQueue::TakeOver() { return over_.empty() ? nullptr : TakeOver(*over_.front()); }

std::unique_ptr<ActiveJob> JobQueue::TakeOver(const ActiveJob& job) {
  over_.erase(std::find(over_.begin(), over_.end(), &job));
  const auto found = jobs_.find(job.id);
  std::unique_ptr<ActiveJob> taken = std::move(found->second);
  jobs_.erase(found);
  return taken;
}

absl::Time JobQueue::OldestSubmission() const {
  return jobs_.empty() ? absl::InfiniteFuture() : jobs_.begin()->second->submitted;
}

absl::Time JobQueue::OldestProgress() const {
  absl::Time oldest = absl::InfiniteFuture();
  for (const auto& [id, job] : jobs_) oldest = std::min(oldest, std::max(job->submitted, job->last_tile_end));
  return oldest;
}

}  // namespace attend::core
