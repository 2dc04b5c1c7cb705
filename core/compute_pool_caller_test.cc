// ComputePool::Run and SubmitHere: a caller in the place of a worker.
#include <omp.h>

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/compute_pool.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/scripted_source.h"

namespace attend::core {
namespace {

using ::attend::testing::FakeClock;
using ::attend::testing::ScriptedSource;

using Script = ScriptedSource::Script;

std::unique_ptr<ComputePool> MakePool(int workers, const Clock* clock = &Clock::Steady()) {
  auto pool = ComputePool::Create({.workers = workers, .clock = clock});
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

ComputePool::Job JobOf(Script script) { return {.source = std::make_unique<ScriptedSource>(std::move(script))}; }

// Runs jobs of one tile until `tile` ran on this thread: workers that have just begun are not asleep yet.
void RunOnThisThread(ComputePool& pool, const std::function<void()>& tile) {
  bool here = false;
  const std::thread::id caller = std::this_thread::get_id();
  for (int tries = 0; tries < 100'000 && !here; ++tries) {
    const auto run_here = [&](int) {
      if (std::this_thread::get_id() != caller) return;
      here = true;
      tile();
    };
    ASSERT_TRUE(pool.Run(JobOf({.tiles = 1, .parallelism = 1, .on_tile = run_here})).ok());
  }
  ASSERT_TRUE(here);
}

// Items of several steps each, which the worker that took one must finish: like blocks of queries.
class KeepingSource final : public TileSource {
 public:
  static constexpr int kSteps = 3;

  KeepingSource(int workers, int64_t items, std::atomic<int64_t>& steps)
      : kept_(static_cast<size_t>(workers)), users_(kept_.size()), left_(items), unfinished_(items), steps_(steps) {}

  StepResult Step(int worker) override {
    const auto mine = static_cast<size_t>(worker);
    if (users_[mine].fetch_add(1) != 0) clash_ = true;
    const StepResult result = Advance(kept_[mine]);
    users_[mine].fetch_sub(1);
    return result;
  }
  bool finished() const override { return unfinished_ == 0; }
  absl::Status status() const override {
    return clash_ ? absl::InternalError("two threads with one number") : absl::OkStatus();
  }
  int parallelism() const override { return static_cast<int>(kept_.size()); }
  int64_t total_multiply_adds() const override { return unfinished_ * kSteps; }

 private:
  StepResult Advance(int& kept) {
    if (kept == 0) {
      if (left_.fetch_sub(1) <= 0) return {};
      kept = kSteps;
    }
    ++steps_;
    if (--kept == 0) --unfinished_;
    return {.outcome = Outcome::kAdvanced, .multiply_adds = 1};
  }

  std::vector<int> kept_;  // by worker: steps left of its item
  std::vector<std::atomic<int>> users_;
  std::atomic<int64_t> left_;
  std::atomic<int64_t> unfinished_;
  std::atomic<bool> clash_ = false;
  std::atomic<int64_t>& steps_;
};

class ComputePoolCallerTest : public ::testing::TestWithParam<int> {};  // workers

INSTANTIATE_TEST_SUITE_P(Workers, ComputePoolCallerTest, ::testing::Values(1, 2, 4));

TEST_P(ComputePoolCallerTest, ReturnsWhenEveryTileHasRun) {
  const auto pool = MakePool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> tiles = 0;
    std::atomic<int> strays = 0;
    std::atomic<int> done = 0;
    ComputePool::Job job = JobOf({.packing_tiles = round % 4, .tiles = 20, .on_tile = [&](int worker) {
                                    ++tiles;
                                    if (worker < 0 || worker >= GetParam()) ++strays;
                                  }});
    job.done = [&](const absl::Status& status, const JobTimings& timings) {
      if (status.ok() && timings.multiply_adds == tiles * 1000) ++done;
    };
    ASSERT_TRUE(pool->Run(std::move(job)).ok());
    ASSERT_EQ(tiles, 20 + round % 4);
    ASSERT_EQ(strays, 0);
    ASSERT_EQ(done, 1);
    ASSERT_EQ(pool->active_jobs(), 0);
  }
}

TEST_P(ComputePoolCallerTest, ReturnsHowTheJobEnds) {
  FakeClock clock;
  const auto pool = MakePool(GetParam(), &clock);
  EXPECT_TRUE(pool->Run(JobOf({.tiles = 0})).ok());
  EXPECT_EQ(pool->Run(JobOf({.tiles = 3, .status = absl::InternalError("tile")})).code(), absl::StatusCode::kInternal);
  ComputePool::Job job = JobOf({.tiles = int64_t{1} << 50, .on_tile = [&](int) { clock.Advance(absl::Seconds(1)); }});
  job.deadline = clock.Now() + absl::Seconds(100);
  EXPECT_EQ(pool->Run(std::move(job)).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(ComputePoolCallerTest, TheCallerComputes) {
  const auto pool = MakePool(GetParam());
  RunOnThisThread(*pool, [] {});
}

TEST_P(ComputePoolCallerTest, TheCallerComputesAsWorkersDoAndIsLeftAsItWas) {
  const auto pool = MakePool(GetParam());
  omp_set_num_threads(3);
  std::fesetround(FE_UPWARD);
  int threads = 0;
  int rounding = 0;
  RunOnThisThread(*pool, [&] {
    threads = omp_get_max_threads();
    rounding = std::fegetround();
  });
  const int rounding_after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(threads, 1);
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(omp_get_max_threads(), 3);
  EXPECT_EQ(rounding_after, FE_UPWARD);
}

TEST_P(ComputePoolCallerTest, ACallerWaitsWhileAllWorkersAreBusy) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> held = 0;
  std::atomic<bool> open = false;
  std::atomic<bool> early = false;
  const auto pool = MakePool(GetParam());  // ends before what its tasks use
  for (int i = 0; i < GetParam(); ++i) {
    pool->Post([&, released] {
      ++held;
      released.wait();
    });
  }
  while (held < GetParam()) std::this_thread::yield();
  std::thread caller([&] {
    EXPECT_TRUE(pool->Run(JobOf({.on_tile =
                                     [&](int) {
                                       if (!open) early = true;
                                     }}))
                    .ok());
  });
  while (pool->active_jobs() == 0) std::this_thread::yield();
  open = true;
  release.set_value();
  caller.join();
  EXPECT_FALSE(early);
}

// Every number is taken by callers whose jobs do not end before others have been served.
TEST_P(ComputePoolCallerTest, CallersMakeRoomForOtherJobsAndTasks) {
  std::atomic<bool> served = false;
  std::atomic<int> running = 0;
  std::promise<void> task_ran;
  std::promise<absl::StatusCode> ended;
  FakeClock clock;
  const auto pool = MakePool(GetParam(), &clock);  // ends before what its tasks use
  const absl::Time deadline = clock.Now() + absl::Hours(1);
  const auto run_until_served = [&] {
    std::atomic<bool> first = true;
    ComputePool::Job job = JobOf({.tiles = int64_t{1} << 50, .parallelism = 1, .on_tile = [&](int) {
                                    if (served) clock.Advance(absl::Seconds(1));
                                    if (first.exchange(false)) ++running;
                                  }});
    job.deadline = deadline;
    EXPECT_EQ(pool->Run(std::move(job)).code(), absl::StatusCode::kDeadlineExceeded);
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < GetParam(); ++i) callers.emplace_back(run_until_served);
  while (running < GetParam()) std::this_thread::yield();
  pool->Post([&] { task_ran.set_value(); });
  task_ran.get_future().wait();
  ComputePool::Job job = JobOf({.tiles = 5});
  job.done = [&](const absl::Status& status, const JobTimings&) { ended.set_value(status.code()); };
  pool->Submit(std::move(job));
  EXPECT_EQ(ended.get_future().get(), absl::StatusCode::kOk);
  served = true;
  for (std::thread& caller : callers) caller.join();
}

TEST_P(ComputePoolCallerTest, AJobSubmittedHereIsDoneHere) {
  const auto pool = MakePool(GetParam());
  const std::thread::id caller = std::this_thread::get_id();
  bool here = false;                                        // once all of it was, before the return
  for (int tries = 0; tries < 100'000 && !here; ++tries) {  // workers that have just begun are not asleep yet
    std::atomic<bool> elsewhere = false;
    std::atomic<int> done = 0;
    const auto note = [&] { elsewhere = elsewhere || std::this_thread::get_id() != caller; };
    ComputePool::Job job = JobOf({.tiles = 3, .parallelism = 1, .on_tile = [&](int) { note(); }});
    job.done = [&](const absl::Status& status, const JobTimings& timings) {
      note();
      if (status.ok() && timings.multiply_adds == 3000) ++done;
    };
    EXPECT_NE(pool->SubmitHere(std::move(job)), 0u);
    here = done == 1 && !elsewhere;
    while (done == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(here);
}

TEST_P(ComputePoolCallerTest, AJobSubmittedHereWaitsForBusyWorkersElsewhere) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> held = 0;
  std::promise<bool> on_caller;
  const auto pool = MakePool(GetParam());  // ends before what its tasks use
  for (int i = 0; i < GetParam(); ++i) {
    pool->Post([&, released] {
      ++held;
      released.wait();
    });
  }
  while (held < GetParam()) std::this_thread::yield();
  const std::thread::id caller = std::this_thread::get_id();
  ComputePool::Job job = JobOf({.on_tile = [&](int) { on_caller.set_value(std::this_thread::get_id() == caller); }});
  job.done = [](const absl::Status&, const JobTimings&) {};
  pool->SubmitHere(std::move(job));
  release.set_value();  // reached: the call has returned
  EXPECT_FALSE(on_caller.get_future().get());
}

// Blocked for one thread, and done by the first other that comes.
class OthersSource final : public TileSource {
 public:
  explicit OthersSource(std::thread::id not_for) : not_for_(not_for) {}

  StepResult Step(int) override {
    if (std::this_thread::get_id() == not_for_) return {.outcome = Outcome::kBlocked};
    if (finished_.exchange(true)) return {};
    return {.outcome = Outcome::kAdvanced, .multiply_adds = 1};
  }
  bool finished() const override { return finished_; }
  absl::Status status() const override { return absl::OkStatus(); }
  int parallelism() const override { return 1; }
  int64_t total_multiply_adds() const override { return 1; }

 private:
  const std::thread::id not_for_;
  std::atomic<bool> finished_ = false;
};

TEST_P(ComputePoolCallerTest, ABlockedJobSubmittedHereIsLeftToTheWorkers) {
  const auto pool = MakePool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::promise<absl::StatusCode> ended;
    ComputePool::Job job = {.source = std::make_unique<OthersSource>(std::this_thread::get_id())};
    job.done = [&](const absl::Status& status, const JobTimings&) { ended.set_value(status.code()); };
    pool->SubmitHere(std::move(job));
    ASSERT_EQ(ended.get_future().get(), absl::StatusCode::kOk);
  }
}

// What a caller leaves half done when it makes room is finished by another thread under the same number.
TEST_P(ComputePoolCallerTest, ManyCallersAtOnceFinishEveryItem) {
  constexpr int kCallers = 4;
  constexpr int64_t kJobs = 300;
  constexpr int64_t kItems = 5;
  std::atomic<int64_t> steps = 0;
  std::atomic<int> submitted = 0;
  std::atomic<int> succeeded = 0;
  auto pool = MakePool(GetParam());
  const auto count = [&](const absl::Status& status, const JobTimings&) { succeeded += status.ok() ? 1 : 0; };
  const auto make_job = [&] {
    return ComputePool::Job{.source = std::make_unique<KeepingSource>(GetParam(), kItems, steps), .done = count};
  };
  std::vector<std::thread> callers;
  for (int t = 0; t < kCallers; ++t) {
    callers.emplace_back([&, t] {
      for (int64_t i = 0; i < kJobs; ++i) {
        if (i % kCallers == t) pool->Submit(make_job()), ++submitted;
        EXPECT_TRUE(pool->Run(make_job()).ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  while (pool->active_jobs() > 0) std::this_thread::yield();
  pool.reset();
  EXPECT_EQ(succeeded, kCallers * kJobs + submitted);
  EXPECT_EQ(steps, succeeded * kItems * KeepingSource::kSteps);
}

}  // namespace
}  // namespace attend::core
