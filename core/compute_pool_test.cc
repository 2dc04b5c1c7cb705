#include "core/compute_pool.h"

#include <omp.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/scripted_source.h"

namespace attend::core {
namespace {

using ::attend::testing::FakeClock;
using ::attend::testing::ScriptedSource;

using Script = ScriptedSource::Script;

// What `done` was told. Not the status itself: its shared part is counted in a library that ThreadSanitizer does not
// see.
struct Ended {
  absl::StatusCode code;
  std::string message;
  JobTimings timings;
};

std::unique_ptr<ComputePool> MakePool(int workers, const Clock* clock = &Clock::Steady()) {
  auto pool = ComputePool::Create({.workers = workers, .clock = clock});
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

ComputePool::Job MakeJob(Script script, std::promise<Ended>& ended, absl::Time deadline = absl::InfiniteFuture()) {
  return {.source = std::make_unique<ScriptedSource>(std::move(script)),
          .deadline = deadline,
          .done = [&ended](const absl::Status& status, const JobTimings& timings) {
            ended.set_value({status.code(), std::string(status.message()), timings});
          }};
}

Ended RunJob(ComputePool& pool, Script script) {
  std::promise<Ended> ended;
  pool.Submit(MakeJob(std::move(script), ended));
  return ended.get_future().get();
}

// Keeps workers busy with tasks until opened.
class Barrier {
 public:
  // Returns once `workers` workers are held.
  Barrier(ComputePool& pool, int workers) {
    for (int i = 0; i < workers; ++i) {
      pool.Post([this] {
        std::unique_lock lock(mutex_);
        ++held_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
        --held_;
        changed_.notify_all();
      });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ == workers; });
  }
  ~Barrier() { Open(); }

  void Open() {
    std::unique_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return held_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int held_ = 0;
  bool open_ = false;
};

class ComputePoolTest : public ::testing::TestWithParam<int> {};  // workers

INSTANTIATE_TEST_SUITE_P(Workers, ComputePoolTest, ::testing::Values(1, 2, 4));

TEST(ComputePoolCreateTest, NeedsAWorker) {
  EXPECT_EQ(ComputePool::Create({.workers = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ComputePool::Create({.workers = -1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ComputePoolTest, RunsEveryTileOnceOnItsOwnWorkers) {
  const auto pool = MakePool(GetParam());
  std::atomic<int> tiles = 0;
  std::atomic<int> strays = 0;
  const Ended ended = RunJob(*pool, {.packing_tiles = 7, .tiles = 500, .on_tile = [&](int worker) {
                                       ++tiles;
                                       if (worker < 0 || worker >= GetParam()) ++strays;
                                     }});
  EXPECT_EQ(ended.code, absl::StatusCode::kOk) << ended.message;
  EXPECT_EQ(tiles, 507);
  EXPECT_EQ(strays, 0);
  EXPECT_EQ(ended.timings.multiply_adds, 507 * 1000);
  EXPECT_EQ(pool->active_jobs(), 0);
  EXPECT_EQ(pool->oldest_progress(), absl::InfiniteFuture());
  EXPECT_EQ(pool->oldest_submission(), absl::InfiniteFuture());
}

TEST_P(ComputePoolTest, AJobWithoutTilesIsDoneAtOnce) {
  const auto pool = MakePool(GetParam());
  const Ended ended = RunJob(*pool, {.tiles = 0});
  EXPECT_EQ(ended.code, absl::StatusCode::kOk);
  EXPECT_EQ(ended.timings.multiply_adds, 0);
}

TEST_P(ComputePoolTest, ASourcesOwnStatusIsHandedOn) {
  const auto pool = MakePool(GetParam());
  const Ended ended = RunJob(*pool, {.tiles = 3, .status = absl::InternalError("tile")});
  EXPECT_EQ(ended.code, absl::StatusCode::kInternal);
  EXPECT_EQ(ended.message, "tile");
}

TEST_P(ComputePoolTest, OpenMpRunsSingleThreadedOnEveryWorker) {
  const auto pool = MakePool(GetParam());
  std::atomic<int> most = 0;
  RunJob(*pool, {.tiles = 50, .on_tile = [&](int) { most = std::max(most.load(), omp_get_max_threads()); }});
  EXPECT_EQ(most, 1);
}

TEST_P(ComputePoolTest, ACancelledJobStopsWithinOneTile) {
  const auto pool = MakePool(GetParam());
  std::promise<Ended> ended;
  std::promise<void> running;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  std::atomic<int> tiles = 0;
  const ComputePool::JobId id = pool->Submit(MakeJob({.tiles = 1'000'000,
                                                      .on_tile =
                                                          [&](int) {
                                                            if (++tiles == GetParam()) running.set_value();
                                                            may_go_on.wait();
                                                          }},
                                                     ended));
  running.get_future().wait();
  pool->Cancel(id);
  pool->Cancel(id);
  go_on.set_value();
  EXPECT_EQ(ended.get_future().get().code, absl::StatusCode::kCancelled);
  EXPECT_EQ(tiles, GetParam());
  pool->Cancel(id);  // not there any more
  pool->Cancel(0);
}

TEST_P(ComputePoolTest, ACancelledJobThatHasNotStartedRunsNoTile) {
  const auto pool = MakePool(GetParam());
  std::promise<Ended> ended;
  std::atomic<int> tiles = 0;
  Barrier barrier(*pool, GetParam());
  pool->Cancel(pool->Submit(MakeJob({.on_tile = [&](int) { ++tiles; }}, ended)));
  barrier.Open();
  EXPECT_EQ(ended.get_future().get().code, absl::StatusCode::kCancelled);
  EXPECT_EQ(tiles, 0);
}

TEST_P(ComputePoolTest, ARunningJobEndsAtItsDeadline) {
  FakeClock clock;
  const auto pool = MakePool(GetParam(), &clock);
  std::promise<Ended> ended;
  std::atomic<int> tiles = 0;
  pool->Submit(MakeJob({.tiles = 1'000'000,
                        .on_tile =
                            [&](int) {
                              if (++tiles == 100) clock.Advance(absl::Seconds(2));
                            }},
                       ended, clock.Now() + absl::Seconds(1)));
  EXPECT_EQ(ended.get_future().get().code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(tiles, 1'000'000);
}

TEST_P(ComputePoolTest, ADeadlineEndsAJobThatNeverGotATile) {
  FakeClock clock;
  const auto pool = MakePool(GetParam(), &clock);
  std::promise<Ended> late;
  std::promise<Ended> in_time;
  std::atomic<int> tiles = 0;
  Barrier barrier(*pool, GetParam());
  pool->Submit(MakeJob({.on_tile = [&](int) { ++tiles; }}, late, clock.Now() + absl::Seconds(1)));
  pool->Submit(MakeJob({}, in_time, clock.Now() + absl::Seconds(3)));
  clock.Advance(absl::Seconds(2));
  barrier.Open();
  const Ended ended = late.get_future().get();
  EXPECT_EQ(ended.code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ended.timings.queue, absl::Seconds(2));
  EXPECT_EQ(tiles, 0);
  EXPECT_EQ(in_time.get_future().get().code, absl::StatusCode::kOk);
}

TEST_P(ComputePoolTest, TheSourceIsGoneBeforeDone) {
  const auto pool = MakePool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> destroyed = false;
    std::atomic<int> inside = 0;
    std::promise<bool> order;
    pool->Submit({.source = std::make_unique<ScriptedSource>(Script{.tiles = 5,
                                                                    .on_destroy =
                                                                        [&](int workers) {
                                                                          inside = workers;
                                                                          destroyed = true;
                                                                        }}),
                  .done = [&](const absl::Status&, const JobTimings&) { order.set_value(destroyed); }});
    ASSERT_TRUE(order.get_future().get());
    ASSERT_EQ(inside, 0);
  }
}

TEST_P(ComputePoolTest, DoneMaySubmitCancelAndPost) {
  std::promise<Ended> endless_ended;
  std::promise<Ended> second_ended;
  std::promise<void> posted;
  const auto pool = MakePool(GetParam());
  const ComputePool::JobId endless = pool->Submit(MakeJob({.tiles = int64_t{1} << 60}, endless_ended));
  pool->Submit(
      {.source = std::make_unique<ScriptedSource>(Script{}), .done = [&](const absl::Status&, const JobTimings&) {
         pool->Cancel(endless);
         pool->Submit(MakeJob({}, second_ended));
         pool->Post([&] { posted.set_value(); });
       }});
  EXPECT_EQ(endless_ended.get_future().get().code, absl::StatusCode::kCancelled);
  EXPECT_EQ(second_ended.get_future().get().code, absl::StatusCode::kOk);
  posted.get_future().wait();
}

TEST_P(ComputePoolTest, TasksRunInOrderAndMayPost) {
  std::mutex mutex;
  std::vector<int> order;
  std::promise<void> last;
  const auto pool = MakePool(GetParam());  // ends before what the tasks use: `last` may come before others end
  for (int i = 0; i < 100; ++i) {
    pool->Post([&, i] {
      const std::lock_guard lock(mutex);
      order.push_back(i);
      if (i == 99) pool->Post([&] { last.set_value(); });
    });
  }
  last.get_future().wait();
  if (GetParam() > 1) return;  // several at a time: only one worker shows the order
  const std::lock_guard lock(mutex);
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ComputePoolTaskTest, TasksGoBeforeTilesButNeverStarveThem) {
  std::atomic<int> tasks = 0;
  std::vector<int> tasks_before_tile;
  std::promise<Ended> ended;
  ComputePool* poster = nullptr;
  // Every task posts the next one: there always is one.
  std::function<void()> chain = [&] {
    if (++tasks < 1000) poster->Post(chain);
  };
  const auto pool = MakePool(1);  // ends before what the tasks use
  poster = pool.get();
  {
    Barrier barrier(*pool, 1);
    pool->Post(chain);
    pool->Submit(MakeJob({.tiles = 20, .on_tile = [&](int) { tasks_before_tile.push_back(tasks); }}, ended));
    barrier.Open();
  }
  EXPECT_EQ(ended.get_future().get().code, absl::StatusCode::kOk);
  ASSERT_EQ(tasks_before_tile.size(), 20u);
  EXPECT_GT(tasks_before_tile[0], 0);
  EXPECT_LT(tasks_before_tile[19], 400);
}

// The worker that runs the task comes to one of the two; a sleeping one must be woken for the other.
TEST(ComputePoolTaskTest, WhatATaskPostsIsRunBySeveralWorkers) {
  for (int round = 0; round < 100; ++round) {
    std::promise<void> second;
    std::promise<void> both;
    const auto pool = MakePool(2);  // ends before what the tasks use
    RunJob(*pool, {});              // and is asleep, or soon will be
    pool->Post([&] {
      pool->Post([&] {
        second.get_future().wait();
        both.set_value();
      });
      pool->Post([&] { second.set_value(); });
    });
    both.get_future().wait();
  }
}

TEST(ComputePoolTaskTest, WhatATaskSubmitsIsRunBySeveralWorkers) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> inside = 0;
    std::promise<Ended> ended;
    const auto pool = MakePool(2);
    const auto meet = [&](int) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
    };
    pool->Post([&] { pool->Submit(MakeJob({.tiles = 2, .on_tile = meet}, ended)); });
    EXPECT_EQ(ended.get_future().get().code, absl::StatusCode::kOk);
  }
}

TEST_P(ComputePoolTest, DestructionCancelsEverythingAndRunsTasks) {
  std::atomic<int> cancelled = 0;
  std::atomic<int> late = 0;
  std::atomic<int> tasks = 0;
  auto pool = MakePool(GetParam());
  ComputePool* const raw = pool.get();
  const auto count_late = [&](const absl::Status& status, const JobTimings&) {
    if (status.code() == absl::StatusCode::kCancelled) ++late;
  };
  std::promise<void> running;
  std::atomic<bool> told = false;
  for (int i = 0; i < 50; ++i) {
    pool->Submit({.source = std::make_unique<ScriptedSource>(Script{.tiles = int64_t{1} << 60,
                                                                    .on_tile =
                                                                        [&](int) {
                                                                          if (!told.exchange(true)) running.set_value();
                                                                        }}),
                  .done = [&, raw](const absl::Status& status, const JobTimings&) {
                    if (status.code() == absl::StatusCode::kCancelled) ++cancelled;
                    raw->Submit({.source = std::make_unique<ScriptedSource>(Script{}), .done = count_late});
                    raw->Post([&] { ++tasks; });
                  }});
  }
  running.get_future().wait();
  pool.reset();
  EXPECT_EQ(cancelled, 50);
  EXPECT_EQ(late, 50);
  EXPECT_EQ(tasks, 50);
}

TEST_P(ComputePoolTest, BlockedWorkersWakeWhenTheTileTheyWaitForEnds) {
  const auto pool = MakePool(GetParam());
  for (int round = 0; round < 300; ++round) {
    ASSERT_EQ(RunJob(*pool, {.packing_tiles = 1 + round % 5, .tiles = 8}).code, absl::StatusCode::kOk);
  }
}

TEST(ComputePoolBlockedTest, AWorkerThatSleepsBlockedTakesNewWork) {
  const auto pool = MakePool(2);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::promise<Ended> held_ended;
  // One worker packs until released; the other is blocked by that.
  pool->Submit(MakeJob({.packing_tiles = 1, .tiles = 1, .on_tile = [released](int) { released.wait(); }}, held_ended));
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(RunJob(*pool, {.tiles = 3}).code, absl::StatusCode::kOk);
    std::promise<void> ran;
    pool->Post([&] { ran.set_value(); });
    ran.get_future().wait();
  }
  release.set_value();
  EXPECT_EQ(held_ended.get_future().get().code, absl::StatusCode::kOk);
}

TEST(ComputePoolFiguresTest, AgesAndBusyTimeFollowTheClock) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  const auto pool = MakePool(1, &clock);
  std::promise<Ended> ended;
  Barrier barrier(*pool, 1);
  pool->Submit(
      MakeJob({.packing_tiles = 1, .tiles = 3, .on_tile = [&](int) { clock.Advance(absl::Seconds(1)); }}, ended));
  EXPECT_EQ(pool->active_jobs(), 1);
  EXPECT_EQ(pool->oldest_submission(), start);
  EXPECT_EQ(pool->oldest_progress(), start);
  barrier.Open();
  const JobTimings timings = ended.get_future().get().timings;
  EXPECT_EQ(timings.queue, absl::ZeroDuration());
  EXPECT_EQ(timings.pack, absl::Seconds(1));
  EXPECT_EQ(timings.compute, absl::Seconds(3));
  EXPECT_EQ(timings.busy, absl::Seconds(4));
  EXPECT_EQ(pool->busy_time(), absl::Seconds(4));
  EXPECT_EQ(pool->workers(), 1);
}

}  // namespace
}  // namespace attend::core
