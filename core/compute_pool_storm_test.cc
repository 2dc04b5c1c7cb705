// Thousands of jobs, cancelled, expired and finished at random from several threads: each ends exactly once.
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/compute_pool.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/scripted_source.h"

namespace attend::core {
namespace {

using ::attend::testing::FakeClock;
using ::attend::testing::ScriptedSource;

// What became of one job.
struct Fate {
  std::atomic<int> ends = 0;
  std::atomic<int> destructions = 0;
  std::atomic<int> misorders = 0;  // destroyed with a worker inside, or after `done`
  std::atomic<bool> cancelled = false;
  std::atomic<bool> had_deadline = false;
  std::atomic<int64_t> tiles = 0;
  int64_t wanted_tiles = 0;
  std::atomic<int> code = -1;
};

class ComputePoolStormTest : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kThreads = 3;
  static constexpr int kJobsPerThread = 2000;

  ComputePoolStormTest() : fates_(kThreads * kJobsPerThread) {}

  // `ends`: by itself, sooner or later.
  ComputePool::Job MakeJob(Fate& fate, std::mt19937_64& random, bool ends = false) {
    const auto uniform = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    ScriptedSource::Script script = {.packing_tiles = uniform(0, 3), .tiles = uniform(0, 20)};
    script.parallelism = static_cast<int>(uniform(1, 8));
    script.tile_work = uniform(0, 1000);
    fate.wanted_tiles = script.packing_tiles + script.tiles;
    if (uniform(0, 9) == 0 && !ends)
      script.tiles = int64_t{1} << 50;  // ends by its deadline, by being cancelled or with the pool
    const bool endless = script.tiles > 20;
    script.on_tile = [&fate](int) { ++fate.tiles; };
    script.on_destroy = [&fate](int inside) {
      ++fate.destructions;
      if (inside != 0 || fate.ends != 0) ++fate.misorders;
    };
    ComputePool::Job job;
    job.source = std::make_unique<ScriptedSource>(std::move(script));
    job.priority = static_cast<int>(uniform(1, 9));
    if (endless || uniform(0, 3) == 0) {
      fate.had_deadline = true;
      job.deadline = clock_.Now() + absl::Microseconds(uniform(-10, 2000));
    }
    job.done = [&fate](const absl::Status& status, const JobTimings&) {
      fate.code = static_cast<int>(status.code());
      ++fate.ends;
    };
    return job;
  }

  void SubmitMany(ComputePool& pool, int thread) {
    std::mt19937_64 random(seed_ + static_cast<uint64_t>(thread));
    std::vector<std::pair<ComputePool::JobId, Fate*>> recent;
    for (int i = 0; i < kJobsPerThread; ++i) {
      Fate& fate = fates_[static_cast<size_t>(thread) * kJobsPerThread + static_cast<size_t>(i)];
      if (random() % 32 == 0) {
        const absl::Status ended = pool.Run(MakeJob(fate, random, /*ends=*/true));
        EXPECT_EQ(static_cast<int>(ended.code()), fate.code);
        continue;
      }
      if (random() % 32 == 0) {
        pool.SubmitHere(MakeJob(fate, random, /*ends=*/true));
        continue;
      }
      recent.emplace_back(pool.Submit(MakeJob(fate, random)), &fate);
      if (random() % 4 == 0) {
        const auto& [id, victim] = recent[random() % recent.size()];
        victim->cancelled = true;
        pool.Cancel(id);
      }
      if (random() % 8 == 0) pool.Post([this] { ++tasks_run_; }), ++tasks_posted_;
      if (random() % 16 == 0) recent.clear();
      if (recent.empty()) recent.emplace_back(0, &nobody_);
      clock_.Advance(absl::Microseconds(1));
    }
  }

  void ExpectAllEndedOnce(bool all_may_be_cancelled) const {
    for (const Fate& fate : fates_) {
      ASSERT_EQ(fate.ends, 1);
      ASSERT_EQ(fate.destructions, 1);
      ASSERT_EQ(fate.misorders, 0);
      const auto code = static_cast<absl::StatusCode>(fate.code.load());
      if (code == absl::StatusCode::kOk) {
        ASSERT_EQ(fate.tiles, fate.wanted_tiles);
      } else if (code == absl::StatusCode::kCancelled) {
        ASSERT_TRUE(fate.cancelled || all_may_be_cancelled);
      } else {
        ASSERT_EQ(code, absl::StatusCode::kDeadlineExceeded);
        ASSERT_TRUE(fate.had_deadline);
      }
    }
    EXPECT_EQ(tasks_run_, tasks_posted_);
  }

  const uint64_t seed_ = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 77;
  FakeClock clock_;
  std::vector<Fate> fates_;
  Fate nobody_;
  std::atomic<int> tasks_posted_ = 0;
  std::atomic<int> tasks_run_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Workers, ComputePoolStormTest, ::testing::Values(1, 2, 4));

TEST_P(ComputePoolStormTest, EveryJobEndsExactlyOnce) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  auto pool = *ComputePool::Create({.workers = GetParam(), .clock = &clock_});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { SubmitMany(*pool, t); });
  for (std::thread& thread : threads) thread.join();
  while (pool->active_jobs() > 0) clock_.Advance(absl::Milliseconds(1)), std::this_thread::yield();
  pool.reset();
  ExpectAllEndedOnce(/*all_may_be_cancelled=*/false);
}

TEST_P(ComputePoolStormTest, EveryJobEndsExactlyOnceWhenThePoolEndsFirst) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  auto pool = *ComputePool::Create({.workers = GetParam(), .clock = &clock_});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { SubmitMany(*pool, t); });
  for (std::thread& thread : threads) thread.join();
  pool.reset();
  ExpectAllEndedOnce(/*all_may_be_cancelled=*/true);
}

}  // namespace
}  // namespace attend::core
