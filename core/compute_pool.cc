// Every worker runs one loop: call `done` of a job that is over, else run a task, else run one tile of the job whose
// turn it is (core/job_queue.h), else sleep. One mutex guards all of the pool's state; it is never held in foreign code
// (Step, done, a task, a source's destructor, the clock) and a tile takes it once, for about a microsecond.
//
// Two kinds of sleep, both on a futex (std::atomic::wait on a counter read under the lock, so that no wake-up is lost):
//  * idle: nothing to do for this worker until something is submitted, posted or over. A submission wakes as many as
//    its job can use, not all: waking costs more than a small job.
//  * blocked: all jobs that have something for this worker wait for tiles that others are running. `tiles_` counts
//    tiles that ended; a worker reads it before it first asks, and sleeps only while it is unchanged. Whoever ends a
//    tile wakes the blocked, if a worker found that job blocked since.
//
// A job ends in three steps: it is marked (no worker enters any more), the last worker inside leaves, and then
// whichever worker comes first destroys the source and calls `done`. Steps two and three are the same for finished,
// failed, cancelled and expired jobs, which is why `done` is called exactly once, and never while a worker is inside.
//
// Sources know workers by number. A thread that sleeps idle lays its number down, as no job has anything left for it,
// and takes any one when it wakes. So a caller can be a worker: it takes up a number that lies there, if nobody else
// wants it. It steps its own job only, whosever turn it is; hence it gives the number up as soon as there are other
// jobs or tasks and no number for them, or, if it must not wait, its job is blocked. Then its job may have something
// left for that number, such as half a block of queries: the number is `returned`, and whoever wakes or would lay down
// another takes it first.
#include "core/compute_pool.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/job_queue.h"
#include "core/worker_environment.h"

namespace attend::core {
namespace {

// Tasks go before tiles, but a worker that ran this many in a row runs a tile, if there is one.
constexpr int kTasksBeforeATile = 8;

// How a job in Run() ended.
struct Ending {
  absl::Status status;
  std::atomic<uint32_t> known = 0;  // 1 once it is
};

}  // namespace

class ComputePool::Scheduler {
 public:
  explicit Scheduler(const Options& options) : options_(options), jobs_(options.workers) {
    idle_numbers_.reserve(static_cast<size_t>(options.workers));
    returned_numbers_.reserve(static_cast<size_t>(options.workers));
  }
  ~Scheduler() { Stop(); }

  absl::Status Start();
  // Ends all jobs and joins the workers. While it runs, `done` and tasks may still call the pool.
  void Stop();
  JobId Submit(Job job);
  absl::Status Run(Job job);
  JobId SubmitHere(Job job);
  void Cancel(JobId id);
  void Post(std::function<void()> task);

  int workers() const { return options_.workers; }
  int64_t active_jobs() const;
  absl::Duration busy_time() const { return absl::Nanoseconds(busy_nanoseconds_.load(std::memory_order_relaxed)); }
  absl::Time oldest_progress() const;
  absl::Time oldest_submission() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // What one worker's loop, or Run(), knows. Its own thread alone touches it.
  struct Worker {
    int number = 0;
    absl::Time now;  // read after its latest action
    int tasks_in_row = 0;
    std::vector<JobId> blocked;  // jobs found blocked while tiles_ was `tiles_seen`
    uint32_t tiles_seen = 0;
    const Scheduler* pool = nullptr;
    bool has_next = false;  // its task or `done` queued something that it will come to itself
  };
  // That the calling thread is; null outside of pools.
  static Worker*& Self() {
    static thread_local Worker* self = nullptr;
    return self;
  }

  void Work(int number);
  // Each does one thing, with the lock released meanwhile, and returns true; or there is none to do.
  bool CallDone(Worker& worker, Lock& lock);
  bool RunTask(Worker& worker, Lock& lock);
  bool RunTile(Worker& worker, Lock& lock);
  void CallDoneOf(std::unique_ptr<ActiveJob> job, const Worker& worker);
  void Step(ActiveJob& job, Worker& worker, Lock& lock);
  void SleepIdle(Worker& worker, Lock& lock);
  void SleepBlocked(Worker& worker, Lock& lock);
  void TakeNumber(Worker& worker);
  ActiveJob& Add(Job job, absl::Time now);
  enum class WhenBlocked { kWait, kLeave };
  void WorkOn(ActiveJob& job, int helpers, WhenBlocked when_blocked, Lock& lock);
  bool PlaceIsFree() const;
  bool OthersWait() const;
  int WakesFor(int wanted) const;
  void NoteBlocked(Worker& worker, ActiveJob& job);
  // Releases the lock and wakes up to `count` workers.
  void WakeAndUnlock(int count, Lock& lock);
  void WakeAll();
  absl::Time AddBusy(absl::Time since);

  const Options options_;
  std::vector<std::thread> threads_;
  std::atomic<int64_t> busy_nanoseconds_{0};

  mutable std::mutex mutex_;
  JobQueue jobs_;
  std::deque<std::function<void()>> tasks_;
  JobId last_id_ = 0;
  bool stopping_ = false;
  int idle_sleepers_ = 0;
  int blocked_sleepers_ = 0;
  int callers_ = 0;                    // at work with a number, each with one of the jobs
  std::vector<int> idle_numbers_;      // of workers, that no thread has
  std::vector<int> returned_numbers_;  // likewise, and some job may have something left for them
  // Written under the lock, waited for without it.
  std::atomic<uint32_t> work_{0};   // changes when there is something to do for idle workers
  std::atomic<uint32_t> tiles_{0};  // changes when blocked workers should ask again
};

absl::Status ComputePool::Scheduler::Start() {
  try {
    for (int number = 0; number < options_.workers; ++number) {
      threads_.emplace_back([this, number] { Work(number); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("made ", threads_.size(), " of ", options_.workers, " compute threads: ", error.what()));
  }
  return absl::OkStatus();
}

void ComputePool::Scheduler::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.EndAll(absl::CancelledError("the compute pool ends"));
    WakeAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

ComputePool::JobId ComputePool::Scheduler::Submit(Job job) {
  const absl::Time now = options_.clock->Now();
  const int wanted = std::max(1, job.source->parallelism());
  Lock lock(mutex_);
  const JobId id = Add(std::move(job), now).id;
  WakeAndUnlock(WakesFor(wanted), lock);
  return id;
}

ActiveJob& ComputePool::Scheduler::Add(Job job, absl::Time now) {
  const JobId id = ++last_id_;
  ActiveJob& added = jobs_.Add(id, std::move(job), now);
  if (stopping_) jobs_.End(id, absl::CancelledError("the compute pool ends"));
  return added;
}

absl::Status ComputePool::Scheduler::Run(Job job) {
  // Shared: whoever calls `done` is not finished with it when this returns.
  const auto ending = std::make_shared<Ending>();
  job.done = [ending, done = std::move(job.done)](const absl::Status& status, const JobTimings& timings) {
    if (done) done(status, timings);
    ending->status = status;
    ending->known.store(1);
    ending->known.notify_one();
  };
  const absl::Time now = options_.clock->Now();
  const int wanted = std::max(1, job.source->parallelism());
  Lock lock(mutex_);
  const bool free = PlaceIsFree();
  ActiveJob& mine = Add(std::move(job), now);
  if (free) {
    WorkOn(mine, wanted - 1, WhenBlocked::kWait, lock);
  } else {
    WakeAndUnlock(wanted, lock);
  }
  ending->known.wait(0);
  return ending->status;
}

ComputePool::JobId ComputePool::Scheduler::SubmitHere(Job job) {
  const absl::Time now = options_.clock->Now();
  const int wanted = std::max(1, job.source->parallelism());
  Lock lock(mutex_);
  const bool free = PlaceIsFree();
  ActiveJob& mine = Add(std::move(job), now);
  const JobId id = mine.id;
  if (free) {
    WorkOn(mine, wanted - 1, WhenBlocked::kLeave, lock);
  } else {
    WakeAndUnlock(wanted, lock);
  }
  return id;
}

// Whether a caller may take the place of a worker.
bool ComputePool::Scheduler::PlaceIsFree() const {
  return !idle_numbers_.empty() && returned_numbers_.empty() && !OthersWait();
}

// Whether there is anything to do but the jobs that callers work on.
bool ComputePool::Scheduler::OthersWait() const {
  return !tasks_.empty() || jobs_.has_over() || jobs_.size() > callers_;
}

// Until the job is over, or has nothing left for the caller, or others want its number, or, with kLeave, it is blocked.
// Releases the lock.
void ComputePool::Scheduler::WorkOn(ActiveJob& job, int helpers, WhenBlocked when_blocked, Lock& lock) {
  const WorkerEnvironment environment;
  Worker worker;
  worker.now = job.submitted;
  TakeNumber(worker);
  ++callers_;
  jobs_.Hold(job);
  if (helpers > 0) {
    WakeAndUnlock(helpers, lock);
    lock.lock();
  }
  bool returns = false;
  for (;;) {
    jobs_.EndExpired(worker.now);
    if (job.ending.has_value() || job.exhausted[static_cast<size_t>(worker.number)]) break;
    returns = OthersWait() && idle_numbers_.empty() && returned_numbers_.empty();
    if (when_blocked == WhenBlocked::kLeave && !worker.blocked.empty()) returns = true;
    if (returns) break;
    if (worker.blocked.empty()) {
      worker.tiles_seen = tiles_.load(std::memory_order_relaxed);
      jobs_.Enter(job);
      Step(job, worker, lock);
    } else {
      SleepBlocked(worker, lock);
    }
  }
  jobs_.LetGo(job);
  --callers_;
  (returns ? returned_numbers_ : idle_numbers_).push_back(worker.number);
  std::unique_ptr<ActiveJob> over = jobs_.IsOver(job) ? jobs_.TakeOver(job) : nullptr;
  if (OthersWait()) {
    WakeAndUnlock(1, lock);
  } else {
    lock.unlock();
  }
  if (over != nullptr) CallDoneOf(std::move(over), worker);
}

void ComputePool::Scheduler::Cancel(JobId id) {
  Lock lock(mutex_);
  jobs_.End(id, absl::CancelledError("the job was cancelled"));
  if (jobs_.has_over()) WakeAndUnlock(1, lock);
}

void ComputePool::Scheduler::Post(std::function<void()> task) {
  Lock lock(mutex_);
  tasks_.push_back(std::move(task));
  WakeAndUnlock(WakesFor(1), lock);
}

// What a task or `done` queues first needs one worker less, which looks for work as soon as it returns: a request that
// goes from a task to its job, or from task to task, stays on its processor.
int ComputePool::Scheduler::WakesFor(int wanted) const {
  Worker* const self = Self();
  if (self == nullptr || self->pool != this || self->has_next) return wanted;
  self->has_next = true;
  return wanted - 1;
}

int64_t ComputePool::Scheduler::active_jobs() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size();
}

absl::Time ComputePool::Scheduler::oldest_progress() const {
  const std::lock_guard lock(mutex_);
  return jobs_.OldestProgress();
}

absl::Time ComputePool::Scheduler::oldest_submission() const {
  const std::lock_guard lock(mutex_);
  return jobs_.OldestSubmission();
}

void ComputePool::Scheduler::Work(int number) {
  omp_set_num_threads(1);  // oneDNN's primitives run in this thread alone; OpenMP keeps it per thread
  Worker worker;
  worker.number = number;
  worker.pool = this;
  worker.now = options_.clock->Now();
  Self() = &worker;
  Lock lock(mutex_);
  for (;;) {
    jobs_.EndExpired(worker.now);
    if (CallDone(worker, lock)) continue;
    if (worker.tasks_in_row < kTasksBeforeATile && RunTask(worker, lock)) continue;
    if (RunTile(worker, lock)) continue;
    if (RunTask(worker, lock)) continue;
    if (stopping_ && jobs_.empty()) return;
    if (worker.blocked.empty()) {
      SleepIdle(worker, lock);
    } else {
      SleepBlocked(worker, lock);
    }
  }
}

bool ComputePool::Scheduler::CallDone(Worker& worker, Lock& lock) {
  std::unique_ptr<ActiveJob> job = jobs_.TakeOver();
  if (job == nullptr) return false;
  lock.unlock();
  CallDoneOf(std::move(job), worker);
  worker.now = options_.clock->Now();
  worker.has_next = false;
  lock.lock();
  if (stopping_ && jobs_.empty()) WakeAll();  // the others may leave
  return true;
}

// Without the lock. What `done` holds on to is gone on return.
void ComputePool::Scheduler::CallDoneOf(std::unique_ptr<ActiveJob> job, const Worker& worker) {
  job->job.source.reset();
  job->job.done(*job->ending, TimingsOf(*job, worker.now));
}

bool ComputePool::Scheduler::RunTask(Worker& worker, Lock& lock) {
  if (tasks_.empty()) return false;
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  ++worker.tasks_in_row;
  lock.unlock();
  task();
  task = nullptr;
  worker.now = AddBusy(worker.now);
  worker.has_next = false;
  lock.lock();
  return true;
}

bool ComputePool::Scheduler::RunTile(Worker& worker, Lock& lock) {
  if (worker.blocked.empty()) worker.tiles_seen = tiles_.load(std::memory_order_relaxed);
  ActiveJob* const job = jobs_.Pick(worker.number, worker.blocked);
  worker.tasks_in_row = 0;
  if (job == nullptr) return false;
  Step(*job, worker, lock);
  return true;
}

// Runs a tile of a job that was entered, and leaves it.
void ComputePool::Scheduler::Step(ActiveJob& job, Worker& worker, Lock& lock) {
  lock.unlock();
  TileSource& source = *job.job.source;
  TileRun run = {.worker = worker.number, .result = source.Step(worker.number), .begin = worker.now, .end = {}};
  const bool advanced = run.result.outcome == TileSource::Outcome::kAdvanced;
  const bool finished = source.finished();
  absl::Status status = finished ? source.status() : absl::OkStatus();
  run.end = worker.now = advanced ? AddBusy(worker.now) : options_.clock->Now();
  lock.lock();
  if (finished) jobs_.End(job.id, std::move(status));
  if (run.result.outcome == TileSource::Outcome::kBlocked) {
    NoteBlocked(worker, job);
  } else {
    if (advanced) worker.blocked.clear();
    tiles_.fetch_add(1);
    if (std::exchange(job.contended, false) && blocked_sleepers_ > 0) tiles_.notify_all();
  }
  jobs_.Leave(job, run);
}

void ComputePool::Scheduler::NoteBlocked(Worker& worker, ActiveJob& job) {
  if (worker.tiles_seen != tiles_.load(std::memory_order_relaxed)) {
    worker.blocked.clear();  // a tile has ended since: ask again
    return;
  }
  worker.blocked.push_back(job.id);
  job.contended = true;
}

void ComputePool::Scheduler::SleepIdle(Worker& worker, Lock& lock) {
  // Of the numbers that nobody has, one that was returned is taken up first.
  idle_numbers_.push_back(worker.number);
  if (!returned_numbers_.empty()) return TakeNumber(worker);
  do {
    const uint32_t seen = work_.load(std::memory_order_relaxed);
    ++idle_sleepers_;
    lock.unlock();
    work_.wait(seen);
    worker.now = options_.clock->Now();
    lock.lock();
    --idle_sleepers_;
  } while (idle_numbers_.empty() && returned_numbers_.empty());
  TakeNumber(worker);
}

void ComputePool::Scheduler::SleepBlocked(Worker& worker, Lock& lock) {
  ++blocked_sleepers_;
  lock.unlock();
  tiles_.wait(worker.tiles_seen);
  worker.now = options_.clock->Now();
  worker.blocked.clear();
  lock.lock();
  --blocked_sleepers_;
}

void ComputePool::Scheduler::TakeNumber(Worker& worker) {
  std::vector<int>& numbers = returned_numbers_.empty() ? idle_numbers_ : returned_numbers_;
  worker.number = numbers.back();
  numbers.pop_back();
}

void ComputePool::Scheduler::WakeAndUnlock(int count, Lock& lock) {
  const int idle = std::min(count, idle_sleepers_);
  const bool rouse_blocked = idle < count && blocked_sleepers_ > 0;
  work_.fetch_add(1);
  if (rouse_blocked) tiles_.fetch_add(1);
  lock.unlock();
  for (int i = 0; i < idle; ++i) work_.notify_one();
  if (rouse_blocked) tiles_.notify_all();
}

void ComputePool::Scheduler::WakeAll() {
  work_.fetch_add(1);
  tiles_.fetch_add(1);
  work_.notify_all();
  tiles_.notify_all();
}

// Counts the time from `since` until now as busy. Returns now.
absl::Time ComputePool::Scheduler::AddBusy(absl::Time since) {
  const absl::Time now = options_.clock->Now();
  busy_nanoseconds_.fetch_add(absl::ToInt64Nanoseconds(now - since), std::memory_order_relaxed);
  return now;
}

absl::StatusOr<std::unique_ptr<ComputePool>> ComputePool::Create(const Options& options) {
  if (options.workers < 1) {
    return absl::InvalidArgumentError(absl::StrCat("workers is ", options.workers, ", must be at least 1"));
  }
  auto scheduler = std::make_unique<Scheduler>(options);
  if (absl::Status status = scheduler->Start(); !status.ok()) return status;
  return std::unique_ptr<ComputePool>(new ComputePool(std::move(scheduler)));
}

ComputePool::ComputePool(std::unique_ptr<Scheduler> scheduler) : scheduler_(std::move(scheduler)) {}

ComputePool::~ComputePool() { scheduler_->Stop(); }

ComputePool::JobId ComputePool::Submit(Job job) { return scheduler_->Submit(std::move(job)); }

absl::Status ComputePool::Run(Job job) { return scheduler_->Run(std::move(job)); }

ComputePool::JobId ComputePool::SubmitHere(Job job) { return scheduler_->SubmitHere(std::move(job)); }

void ComputePool::Cancel(JobId id) { scheduler_->Cancel(id); }

void ComputePool::Post(std::function<void()> task) { scheduler_->Post(std::move(task)); }

int ComputePool::workers() const { return scheduler_->workers(); }

int64_t ComputePool::active_jobs() const { return scheduler_->active_jobs(); }

absl::Duration ComputePool::busy_time() const { return scheduler_->busy_time(); }

absl::Time ComputePool::oldest_progress() const { return scheduler_->oldest_progress(); }

absl::Time ComputePool::oldest_submission() const { return scheduler_->oldest_submission(); }

}  // namespace attend::core
