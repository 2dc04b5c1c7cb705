// What computing takes beyond inputs, packed keys and values, and results: a constant per worker.
#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/tiled_attention.h"
#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::TiledAttention;

class MemoryTest : public ConformanceOfType {};
INSTANTIATE_TEST_SUITE_P(ElementTypes, MemoryTest, ::testing::ValuesIn(kElementTypes), TypeName);

constexpr AttentionShape kLong = {
    .query_heads = 8, .kv_heads = 2, .query_length = 4096, .key_length = 4096, .head_dim = 64, .value_dim = 48};

int64_t Scratch(CoreRunner& runner, const AttentionProblem& problem) {
  return core::PredictScratchBytes(problem, runner.kernels());
}

TEST_P(MemoryTest, ScratchIsTheSameForAnyNumberOfQueries) {
  AttentionShape shape = kLong;
  const int64_t want = Scratch(runner(), MakeProblem(shape, GetParam(), {}, {}));
  for (int64_t query_length : {1024, 131072}) {
    shape.query_length = query_length;
    EXPECT_EQ(Scratch(runner(), MakeProblem(shape, GetParam(), {}, {})), want) << query_length;
  }
}

TEST_P(MemoryTest, EveryWorkerAddsTheSameWhateverTheLengths) {
  std::vector<std::unique_ptr<CoreRunner>> runners;
  for (int workers : {1, 2, 5}) {
    auto created = CoreRunner::Create(workers);
    ASSERT_TRUE(created.ok()) << created.status();
    runners.push_back(*std::move(created));
  }
  const auto per_worker = [&](const AttentionShape& shape) {
    const auto problem = MakeProblem(shape, GetParam());
    const int64_t one = Scratch(*runners[0], problem);
    const int64_t added = Scratch(*runners[1], problem) - one;
    EXPECT_EQ(Scratch(*runners[2], problem), one + 4 * added) << Describe(problem);
    return added;
  };
  AttentionShape shape = kLong;
  const int64_t want = per_worker(shape);
  EXPECT_LE(want, int64_t{16} << 20);
  for (int64_t length : {1025, 8192, 131072}) {
    shape.query_length = length;
    shape.key_length = length;
    EXPECT_EQ(per_worker(shape), want) << length;
  }
}

// Packed keys and values: 4 bytes an element, dims rounded to 64, and what a pool of large blocks rounds up.
TEST_P(MemoryTest, ScratchGrowsWithPackedKeysAndValuesAlone) {
  AttentionShape shape = kLong;
  shape.key_length = 8192;
  const int64_t shorter = Scratch(runner(), MakeProblem(kLong, GetParam()));
  const int64_t longer = Scratch(runner(), MakeProblem(shape, GetParam()));
  EXPECT_LE(longer - shorter, (8192 - 4096) * shape.kv_heads * (64 + 64) * 4 * 1.15);
}

TEST_P(MemoryTest, PredictionsBeyondAnyMemoryDoNotOverflow) {
  const AttentionShape shape = {.query_length = 17, .key_length = int64_t{1} << 59, .head_dim = 1, .value_dim = 1};
  EXPECT_GE(Scratch(runner(), MakeProblem(shape, GetParam(), {}, {})), int64_t{1} << 60);
}

// Runs a problem to its end and returns the most that was taken of `buffers` at a time.
int64_t MostTaken(TiledAttention& source, const core::BufferPool& buffers) {
  int64_t most = buffers.used_bytes();
  while (source.Step(/*worker=*/0).outcome == core::TileSource::Outcome::kAdvanced) {
    most = std::max(most, buffers.used_bytes());
  }
  return most;
}

// Tile by tile, on one worker: never more than was predicted, and all of it given back.
TEST_P(MemoryTest, NoMoreIsTakenThanPredicted) {
  AttentionShape shape = kLong;
  shape.query_length = 300;
  for (CausalAlignment causal : {CausalAlignment::kNone, CausalAlignment::kBottomRight}) {
    const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
    const ProblemValues values = Generate(problem, 1);
    const ProblemBytes bytes(problem, values);
    ProblemResults results(problem);
    const int64_t before = runner().buffers().used_bytes();
    auto source = TiledAttention::Create(problem, bytes.inputs(), results.results(), runner().kernels());
    ASSERT_TRUE(source.ok()) << source.status();
    std::promise<int64_t> most;
    runner().pool().Post([&] { most.set_value(MostTaken(**source, runner().buffers()) - before); });
    EXPECT_LE(most.get_future().get(), Scratch(runner(), problem)) << Describe(problem);
    EXPECT_TRUE((*source)->finished());
    EXPECT_EQ((*source)->status(), absl::OkStatus());
    source->reset();
    EXPECT_EQ(runner().buffers().used_bytes(), before) << Describe(problem);
    EXPECT_EQ(CheckResults(problem, values, results, int64_t{1} << 20), absl::OkStatus());
  }
}

TEST_P(MemoryTest, ALongSequenceOfKeys) {
  AttentionShape shape = {.query_length = 70, .key_length = 131072, .head_dim = 16, .value_dim = 16};
  const auto problem = MakeProblem(shape, GetParam(), {.causal = CausalAlignment::kBottomRight}, {.logsumexp = true});
  ExpectRight(problem, Generate(problem, 2), int64_t{1} << 22);
}

using DegenerateTest = ConformanceTest;

// Nothing to compute, however many batch elements there are nothing of: done at once.
TEST_F(DegenerateTest, AHugeBatchOfNothing) {
  for (int64_t batch : {int64_t{1} << 20, int64_t{1} << 40}) {
    const AttentionShape shape = {.batch = batch,
                                  .query_heads = 1024,
                                  .kv_heads = 1024,
                                  .query_length = 0,
                                  .key_length = 0,
                                  .head_dim = 64,
                                  .value_dim = 64};
    for (CausalAlignment causal : kCausalAlignments) {
      const auto problem = MakeProblem(shape, ElementType::kFloat32, {.causal = causal});
      EXPECT_EQ(problem.MultiplyAdds(), 0);
      auto source = TiledAttention::Create(problem, {}, {}, runner().kernels());
      ASSERT_TRUE(source.ok()) << source.status();
      core::ComputePool::Job job;
      job.source = *std::move(source);
      std::promise<absl::Status> done;
      job.done = [&done](const absl::Status& status, const core::JobTimings&) { done.set_value(status); };
      runner().pool().Submit(std::move(job));
      EXPECT_EQ(done.get_future().get(), absl::OkStatus());
    }
  }
}

TEST_F(DegenerateTest, QueriesWithoutKeysAndKeysWithoutQueries) {
  for (const auto& [query_length, key_length] : {std::pair(0, 100), {100, 0}, {0, 0}}) {
    const AttentionShape shape = {.batch = 2,
                                  .query_heads = 6,
                                  .kv_heads = 3,
                                  .query_length = query_length,
                                  .key_length = key_length,
                                  .head_dim = 5,
                                  .value_dim = 9};
    for (CausalAlignment causal : kCausalAlignments) {
      const auto problem = MakeProblem(shape, ElementType::kFloat32, {.causal = causal});
      ExpectRight(problem, Generate(problem, 3));
    }
  }
}

// A job that is abandoned gives its memory back and leaves the next one right.
TEST_F(DegenerateTest, ACancelledJob) {
  const auto problem = MakeProblem(kLong, ElementType::kFloat32, {}, {});
  const ProblemValues values = Generate(problem, 4);
  const ProblemBytes bytes(problem, values);
  ProblemResults results(problem);
  const int64_t before = runner().buffers().used_bytes();
  auto source = TiledAttention::Create(problem, bytes.inputs(), results.results(), runner().kernels());
  ASSERT_TRUE(source.ok()) << source.status();
  core::ComputePool::Job job;
  job.source = *std::move(source);
  std::promise<absl::Status> done;
  job.done = [&done](const absl::Status& status, const core::JobTimings&) { done.set_value(status); };
  runner().pool().Cancel(runner().pool().Submit(std::move(job)));
  EXPECT_EQ(done.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(runner().buffers().used_bytes(), before);
  const auto next =
      MakeProblem({.query_length = 20, .key_length = 700, .head_dim = 16, .value_dim = 16}, ElementType::kFloat32);
  ExpectRight(next, Generate(next, 5));
}

}  // namespace
}  // namespace attend::testing
