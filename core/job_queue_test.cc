#include "core/job_queue.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/scripted_source.h"

namespace attend::core {
namespace {

using ::attend::testing::ScriptedSource;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

ComputePool::Job MakeJob(int priority = 5, absl::Time deadline = absl::InfiniteFuture()) {
  return {.source = std::make_unique<ScriptedSource>(ScriptedSource::Script{}),
          .priority = priority,
          .deadline = deadline,
          .done = [](const absl::Status&, const JobTimings&) {}};
}

TileRun Tile(int worker, int64_t work, absl::Time begin = kStart, absl::Duration took = absl::ZeroDuration()) {
  return {.worker = worker,
          .result = {.outcome = TileSource::Outcome::kAdvanced, .multiply_adds = work},
          .begin = begin,
          .end = begin + took};
}

TileRun Exhausted(int worker) {
  return {.worker = worker, .result = {.outcome = TileSource::Outcome::kExhausted}, .begin = kStart, .end = kStart};
}

// Lets `worker` run one tile of the job whose turn it is; returns which.
ComputePool::JobId RunOne(JobQueue& queue, int worker, int64_t work = 100) {
  ActiveJob* const job = queue.Pick(worker, {});
  if (job == nullptr) return 0;
  queue.Leave(*job, Tile(worker, work));
  return job->id;
}

TEST(JobQueueTest, JobsTakeTurnsByWork) {
  JobQueue queue(1);
  queue.Add(1, MakeJob(), kStart);
  queue.Add(2, MakeJob(), kStart);
  ActiveJob* const first = queue.Pick(0, {});
  EXPECT_EQ(first->id, 1u);
  queue.Leave(*first, Tile(0, 300));
  // Three tiles of 100 for the one of 300, and then the older of the two that are level.
  EXPECT_EQ(RunOne(queue, 0), 2u);
  EXPECT_EQ(RunOne(queue, 0), 2u);
  EXPECT_EQ(RunOne(queue, 0), 2u);
  EXPECT_EQ(RunOne(queue, 0), 1u);
}

TEST(JobQueueTest, WorkersSpreadOverLevelJobs) {
  JobQueue queue(3);
  for (ComputePool::JobId id = 1; id <= 3; ++id) queue.Add(id, MakeJob(), kStart);
  EXPECT_EQ(queue.Pick(0, {})->id, 1u);
  EXPECT_EQ(queue.Pick(1, {})->id, 2u);
  EXPECT_EQ(queue.Pick(2, {})->id, 3u);
}

TEST(JobQueueTest, ANewJobStartsLevelWithTheLeastServed) {
  JobQueue queue(1);
  queue.Add(1, MakeJob(), kStart);
  queue.Add(2, MakeJob(), kStart);
  for (int i = 0; i < 1001; ++i) RunOne(queue, 0);  // job 1 is one tile ahead
  queue.Add(3, MakeJob(), kStart);
  EXPECT_EQ(RunOne(queue, 0), 2u);
  EXPECT_EQ(RunOne(queue, 0), 3u);
  // It is owed nothing for the time before it came.
  int tiles[4] = {};
  for (int i = 0; i < 300; ++i) ++tiles[RunOne(queue, 0)];
  EXPECT_EQ(tiles[1], 100);
  EXPECT_EQ(tiles[2], 100);
  EXPECT_EQ(tiles[3], 100);
}

TEST(JobQueueTest, TilesWithoutWorkStillTakeTurns) {
  JobQueue queue(1);
  queue.Add(1, MakeJob(), kStart);
  queue.Add(2, MakeJob(), kStart);
  EXPECT_EQ(RunOne(queue, 0, 0), 1u);
  EXPECT_EQ(RunOne(queue, 0, 0), 2u);
}

TEST(JobQueueTest, BlockedAndExhaustedJobsArePassedOver) {
  JobQueue queue(2);
  queue.Add(1, MakeJob(), kStart);
  queue.Add(2, MakeJob(), kStart);
  EXPECT_EQ(queue.Pick(0, {1})->id, 2u);
  EXPECT_EQ(queue.Pick(1, {1, 2}), nullptr);
  ActiveJob* const job = queue.Pick(1, {});
  ASSERT_EQ(job->id, 1u);
  queue.Leave(*job, Exhausted(1));
  EXPECT_EQ(queue.Pick(1, {})->id, 2u);
  EXPECT_EQ(queue.Pick(0, {2})->id, 1u);
}

// Job 1 can use worker 0 alone, of three; job 2 takes the rest. When job 1 can use all again it must not collect
// arrears, and neither may a job that comes then.
TEST(JobQueueTest, AJobThatCouldNotUseEveryWorkerCollectsNoArrears) {
  JobQueue queue(3);
  queue.Add(1, MakeJob(), kStart);
  queue.Add(2, MakeJob(), kStart);
  int own_tiles = 0;
  for (int i = 0; i < 1000; ++i) {
    if (RunOne(queue, 0) == 1) ++own_tiles;
    for (const int worker : {1, 2}) {
      ActiveJob* const job = queue.Pick(worker, {1});
      ASSERT_EQ(job->id, 2u);
      queue.Leave(*job, Tile(worker, 100));
    }
  }
  EXPECT_GE(own_tiles, 999);  // it comes first where it can
  queue.Add(3, MakeJob(), kStart);
  int tiles[4] = {};
  for (int i = 0; i < 30; ++i) ++tiles[RunOne(queue, i % 3)];
  for (const int count : {tiles[1], tiles[2], tiles[3]}) {
    EXPECT_GE(count, 9);
    EXPECT_LE(count, 12);
  }
}

TEST(JobQueueTest, VirtualTimeStartsAnewWithoutJobs) {
  JobQueue queue(1);
  queue.Add(1, MakeJob(), kStart);
  for (int i = 0; i < 10; ++i) RunOne(queue, 0);
  queue.End(1, absl::OkStatus());
  EXPECT_EQ(queue.TakeOver()->id, 1u);
  queue.Add(2, MakeJob(), kStart);
  EXPECT_EQ(queue.Pick(0, {})->virtual_time, 0);
}

TEST(JobQueueTest, AJobIsOverOnceTheLastWorkerHasLeft) {
  JobQueue queue(2);
  queue.Add(1, MakeJob(), kStart);
  ActiveJob* const job = queue.Pick(0, {});
  queue.Pick(1, {});
  queue.End(1, absl::CancelledError("first"));
  queue.End(1, absl::InternalError("second"));
  EXPECT_EQ(queue.Pick(0, {}), nullptr);
  queue.Leave(*job, Tile(0, 1));
  EXPECT_EQ(queue.TakeOver(), nullptr);
  queue.Leave(*job, Tile(1, 1));
  const auto over = queue.TakeOver();
  ASSERT_NE(over, nullptr);
  EXPECT_EQ(*over->ending, absl::CancelledError("first"));
  EXPECT_EQ(queue.TakeOver(), nullptr);
  EXPECT_TRUE(queue.empty());
  queue.End(1, absl::OkStatus());  // not there any more
}

TEST(JobQueueTest, DeadlinesEndJobsThatHaveNotStarted) {
  JobQueue queue(1);
  queue.Add(1, MakeJob(5, kStart + absl::Seconds(2)), kStart);
  queue.Add(2, MakeJob(5, kStart + absl::Seconds(1)), kStart);
  queue.Add(3, MakeJob(), kStart);
  queue.EndExpired(kStart + absl::Milliseconds(999));
  EXPECT_FALSE(queue.has_over());
  queue.EndExpired(kStart + absl::Seconds(1));
  const auto over = queue.TakeOver();
  ASSERT_NE(over, nullptr);
  EXPECT_EQ(over->id, 2u);
  EXPECT_EQ(over->ending->code(), absl::StatusCode::kDeadlineExceeded);
  queue.EndExpired(kStart + absl::Hours(1));
  EXPECT_EQ(queue.TakeOver()->id, 1u);
  EXPECT_EQ(queue.TakeOver(), nullptr);
  EXPECT_EQ(queue.size(), 1);
}

TEST(JobQueueTest, AnUnfinishedJobThatNoWorkerCanRunFails) {
  JobQueue queue(2);
  queue.Add(1, MakeJob(), kStart);
  for (const int worker : {0, 1}) queue.Leave(*queue.Pick(worker, {}), Exhausted(worker));
  const auto over = queue.TakeOver();
  ASSERT_NE(over, nullptr);
  EXPECT_EQ(over->ending->code(), absl::StatusCode::kInternal);
}

TEST(JobQueueTest, AgesAndProgress) {
  JobQueue queue(1);
  EXPECT_EQ(queue.OldestSubmission(), absl::InfiniteFuture());
  EXPECT_EQ(queue.OldestProgress(), absl::InfiniteFuture());
  queue.Add(1, MakeJob(), kStart);
  queue.Add(2, MakeJob(), kStart + absl::Seconds(1));
  EXPECT_EQ(queue.OldestProgress(), kStart);
  queue.Leave(*queue.Pick(0, {}), Tile(0, 1, kStart + absl::Seconds(3), absl::Seconds(1)));
  EXPECT_EQ(queue.OldestSubmission(), kStart);
  EXPECT_EQ(queue.OldestProgress(), kStart + absl::Seconds(1));
}

TEST(JobQueueTest, TimingsShareTheWallTimeByWhatWorkersDid) {
  JobQueue queue(2);
  queue.Add(1, MakeJob(), kStart);
  ActiveJob* const job = queue.Pick(0, {});
  TileRun packing = Tile(0, 10, kStart + absl::Seconds(1), absl::Seconds(2));
  packing.result.packing = true;
  queue.Leave(*job, packing);
  queue.Pick(1, {});
  queue.Leave(*job, Tile(1, 30, kStart + absl::Seconds(3), absl::Seconds(6)));
  const JobTimings timings = TimingsOf(*job, kStart + absl::Seconds(20));
  EXPECT_EQ(timings.queue, absl::Seconds(1));
  EXPECT_EQ(timings.pack, absl::Seconds(2));
  EXPECT_EQ(timings.compute, absl::Seconds(6));
  EXPECT_EQ(timings.busy, absl::Seconds(8));
  EXPECT_EQ(timings.multiply_adds, 40);
}

TEST(JobQueueTest, TimingsOfAJobThatNeverRan) {
  JobQueue queue(1);
  queue.Add(1, MakeJob(), kStart);
  queue.End(1, absl::CancelledError(""));
  const JobTimings timings = TimingsOf(*queue.TakeOver(), kStart + absl::Seconds(4));
  EXPECT_EQ(timings.queue, absl::Seconds(4));
  EXPECT_EQ(timings.pack + timings.compute + timings.busy, absl::ZeroDuration());
  EXPECT_EQ(timings.multiply_adds, 0);
}

}  // namespace
}  // namespace attend::core
