// Fairness by counts of tiles: no time is measured. Workers are stopped at the entrance of every tile and let in one by
// one, in a seeded random order, so that "at any moment" means just that.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/compute_pool.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_source.h"

namespace attend::core {
namespace {

using ::attend::testing::ScriptedSource;

constexpr int64_t kEndless = int64_t{1} << 60;

// Stops workers within tiles until the test lets them go on. Thread-safe.
class Turnstile {
 public:
  // For on_tile: `worker` runs a tile of `job`.
  void Pass(int worker, int job) {
    std::unique_lock lock(mutex_);
    ++tiles_[{worker, job}];
    if (open_) return;
    held_.insert(worker);
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || held_.count(worker) == 0; });
    held_.erase(worker);
  }

  // Waits until `count` workers are held.
  void WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() == count; });
  }

  void LetGo(int worker) {
    const std::lock_guard lock(mutex_);
    held_.erase(worker);
    changed_.notify_all();
  }

  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  // Tiles that `worker` has started of jobs other than `job`.
  int64_t ForeignTiles(int worker, int job) const {
    const std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const auto& [key, count] : tiles_) {
      if (key.first == worker && key.second != job) sum += count;
    }
    return sum;
  }

  int64_t Tiles(int job) const {
    const std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const auto& [key, count] : tiles_) {
      if (key.second == job) sum += count;
    }
    return sum;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::set<int> held_;
  std::map<std::pair<int, int>, int64_t> tiles_;  // by worker and job
};

struct Plan {
  int64_t tiles = kEndless;
  int64_t tile_work = 1000;
  int priority = 5;
};

class ComputePoolFairnessTest : public ::testing::TestWithParam<int> {
 protected:
  ComputePoolFairnessTest() : pool_(*ComputePool::Create({.workers = GetParam()})) {}
  void TearDown() override {
    turnstile_.Open();
    pool_.reset();
  }

  // Its tiles stop at the turnstile.
  int Submit(const Plan& plan) {
    const int job = AddToDone();
    pool_->Submit({.source = std::make_unique<ScriptedSource>(
                       ScriptedSource::Script{.tiles = plan.tiles,
                                              .tile_work = plan.tile_work,
                                              .on_tile = [this, job](int worker) { turnstile_.Pass(worker, job); }}),
                   .priority = plan.priority,
                   .done = [this, job](const absl::Status&, const JobTimings&) {
                     const std::lock_guard lock(done_mutex_);
                     done_[static_cast<size_t>(job)] = true;
                   }});
    return job;
  }

  int AddToDone() {
    const std::lock_guard lock(done_mutex_);
    done_.push_back(false);
    return static_cast<int>(done_.size()) - 1;
  }

  bool Done(int job) {
    const std::lock_guard lock(done_mutex_);
    return done_[static_cast<size_t>(job)];
  }

  Plan RandomPlan(int64_t tiles) {
    return {.tiles = tiles, .tile_work = Uniform(1, 1'000'000), .priority = static_cast<int>(Uniform(1, 9))};
  }

  // The tiles that each worker has started of jobs other than `job`.
  std::vector<int64_t> ForeignTiles(int job) const {
    std::vector<int64_t> tiles;
    for (int worker = 0; worker < GetParam(); ++worker) tiles.push_back(turnstile_.ForeignTiles(worker, job));
    return tiles;
  }

  // Advances until `job` starts its tile (how long that one takes is the test's choice). Until then each worker starts
  // at most `limit` foreign tiles more than `before`.
  void ExpectStartWithin(int job, const std::vector<int64_t>& before, int64_t limit) {
    while (turnstile_.Tiles(job) == 0) {
      const std::vector<int64_t> now = ForeignTiles(job);
      for (size_t worker = 0; worker < now.size(); ++worker) ASSERT_LE(now[worker] - before[worker], limit);
      Advance();
    }
  }

  // Lets a random worker end its tile, and waits until it is in the next one.
  void Advance() {
    turnstile_.LetGo(std::uniform_int_distribution<int>(0, GetParam() - 1)(random_));
    turnstile_.WaitFor(static_cast<size_t>(GetParam()));
  }

  int64_t Uniform(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  const uint64_t seed_ = ::testing::UnitTest::GetInstance()->random_seed() + 20250801u;
  std::mt19937_64 random_{seed_};
  Turnstile turnstile_;
  std::mutex done_mutex_;
  std::vector<bool> done_;
  std::unique_ptr<ComputePool> pool_;  // last: its jobs use the rest
};

INSTANTIATE_TEST_SUITE_P(Workers, ComputePoolFairnessTest, ::testing::Values(1, 2, 4));

// At random moments jobs of one tile come beside 1 to 6 endless ones of differing tile sizes and priorities.
TEST_P(ComputePoolFairnessTest, AJobOfOneTileWaitsForFewForeignTiles) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  const int64_t others = Uniform(1, 6);
  for (int64_t i = 0; i < others; ++i) Submit(RandomPlan(kEndless));
  turnstile_.WaitFor(static_cast<size_t>(GetParam()));
  for (int round = 0; round < 60; ++round) {
    for (int64_t i = Uniform(0, 40); i > 0; --i) Advance();
    const int64_t small_jobs = Uniform(1, 3);
    std::vector<int> jobs;
    std::vector<std::vector<int64_t>> before;  // foreign tiles of each worker when the job came
    for (int64_t i = 0; i < small_jobs; ++i) {
      jobs.push_back(Submit(RandomPlan(1)));
      before.push_back(ForeignTiles(jobs.back()));
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectStartWithin(jobs[i], before[i], 2 + others + small_jobs));
    }
    for (const int job : jobs) {
      while (!Done(job)) Advance();
    }
  }
}

TEST_P(ComputePoolFairnessTest, EqualJobsFinishEvenly) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  std::vector<int> jobs;
  for (int i = 0; i < 5; ++i) jobs.push_back(Submit({}));
  turnstile_.WaitFor(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 2000; ++i) {
    Advance();
    std::vector<int64_t> tiles;
    for (const int job : jobs) tiles.push_back(turnstile_.Tiles(job));
    const auto [least, most] = std::minmax_element(tiles.begin(), tiles.end());
    // Work is charged when a tile ends, and a worker may be held in one while the others go on.
    ASSERT_LE(*most - *least, 2 * GetParam()) << "after " << i;
  }
}

TEST_P(ComputePoolFairnessTest, SharesFollowWorkNotTiles) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  const int coarse = Submit({.tile_work = 5000});
  const int fine = Submit({.tile_work = 1000});
  turnstile_.WaitFor(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 3000; ++i) Advance();
  const double ratio = static_cast<double>(turnstile_.Tiles(fine)) / static_cast<double>(turnstile_.Tiles(coarse));
  EXPECT_NEAR(ratio, 5, 0.25);
}

TEST_P(ComputePoolFairnessTest, PrioritiesShiftSharesAndNeverStarve) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  const int normal = Submit({.priority = 5});
  const int high = Submit({.priority = 3});
  const int highest = Submit({.priority = 1});
  const int lowest = Submit({.priority = 9});
  turnstile_.WaitFor(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 7250; ++i) Advance();  // 1000 for a weight of 1
  EXPECT_NEAR(static_cast<double>(turnstile_.Tiles(normal)), 1000, 30);
  EXPECT_NEAR(static_cast<double>(turnstile_.Tiles(high)), 2000, 60);
  EXPECT_NEAR(static_cast<double>(turnstile_.Tiles(highest)), 4000, 120);
  EXPECT_NEAR(static_cast<double>(turnstile_.Tiles(lowest)), 250, 15);
}

TEST_P(ComputePoolFairnessTest, ALateComerDoesNotShutOutTheOthers) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  const int early = Submit({});
  turnstile_.WaitFor(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 1000; ++i) Advance();
  const int late = Submit({});
  const int64_t early_before = turnstile_.Tiles(early);
  for (int i = 0; i < 1000; ++i) Advance();
  EXPECT_NEAR(static_cast<double>(turnstile_.Tiles(late)), 500, 10);
  EXPECT_NEAR(static_cast<double>(turnstile_.Tiles(early) - early_before), 500, 10);
}

}  // namespace
}  // namespace attend::core
