// What tiled attention promises of bits, workers, steps and memory.
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "core/tiled_attention.h"
#include "core/tiled_attention_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

// Workers also decide the size of query blocks, so this covers that, too.
TEST_F(TiledAttentionTest, SameBitsForAnyNumberOfWorkers) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const auto causal : {CausalAlignment::kNone, CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
      Case c = Causal(333, 700, causal);
      c.type = type;
      c.results = {.weights = true, .logsumexp = true};
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 3);
      const Results one = Compute(problem, inputs, 1);
      for (const int workers : {2, 3, 8}) {
        const Results many = Compute(problem, inputs, workers);
        EXPECT_EQ(one.output.bytes(), many.output.bytes()) << workers;
        EXPECT_EQ(one.weights, many.weights) << workers;
        EXPECT_EQ(one.logsumexp, many.logsumexp) << workers;
      }
    }
  }
}

TEST_F(TiledAttentionTest, AskingForMoreChangesNoBitOfTheOutput) {
  Case c = Causal(200, 300, CausalAlignment::kBottomRight);
  const AttentionProblem plain = MakeProblem(c);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem full = MakeProblem(c);
  Inputs inputs(plain, 4);
  EXPECT_EQ(Compute(plain, inputs).output.bytes(), Compute(full, inputs).output.bytes());
}

// Element b of a batch, key_lengths and all, against the same problem alone.
TEST_F(TiledAttentionTest, SameBitsAloneAndInABatch) {
  Case c = Causal(150, 300, CausalAlignment::kTopLeft, 80);
  c.shape.batch = 3;
  c.options.key_lengths = {300, 77, 256};
  const AttentionProblem batch = MakeProblem(c);
  Inputs inputs(batch, 5);
  const Results together = Compute(batch, inputs, 2);
  for (int64_t b = 0; b < 3; ++b) {
    Case one = c;
    one.shape.batch = 1;
    one.options.key_lengths = {c.options.key_lengths[b]};
    const AttentionProblem problem = MakeProblem(one);
    Inputs alone(problem, 1);
    for (int64_t i = 0; i < alone.query.size(); ++i) alone.query.Set(i, inputs.query.Get(b * alone.query.size() + i));
    for (int64_t i = 0; i < alone.key.size(); ++i) alone.key.Set(i, inputs.key.Get(b * alone.key.size() + i));
    for (int64_t i = 0; i < alone.value.size(); ++i) alone.value.Set(i, inputs.value.Get(b * alone.value.size() + i));
    const Results result = Compute(problem, alone);
    EXPECT_EQ(std::memcmp(result.output.bytes().data(), together.output.bytes().data() + b * problem.OutputBytes(),
                          problem.OutputBytes()),
              0)
        << "element " << b;
  }
}

TEST_F(TiledAttentionTest, SameBitsInBothLayouts) {
  Case c = Causal(100, 200, CausalAlignment::kTopLeft);
  const AttentionProblem heads_first = MakeProblem(c);
  c.options.layout = Layout::kBNHD;
  const AttentionProblem length_first = MakeProblem(c);
  Inputs from(heads_first, 6);
  Inputs to(length_first, 1);
  const auto copy = [](const Tensor& source, const Strides& a, Tensor& target, const Strides& b, int64_t heads,
                       int64_t length, int64_t dim) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        for (int64_t d = 0; d < dim; ++d) target.Set(At(b, 0, h, i, d), source.Get(At(a, 0, h, i, d)));
      }
    }
  };
  copy(from.query, heads_first.QueryStrides(), to.query, length_first.QueryStrides(), 2, 100, 64);
  copy(from.key, heads_first.KeyStrides(), to.key, length_first.KeyStrides(), 1, 200, 64);
  copy(from.value, heads_first.ValueStrides(), to.value, length_first.ValueStrides(), 1, 200, 64);
  const Results a = Compute(heads_first, from);
  const Results b = Compute(length_first, to);
  Results reordered(heads_first);
  copy(b.output, length_first.OutputStrides(), reordered.output, heads_first.OutputStrides(), 2, 100, 64);
  EXPECT_EQ(a.output.bytes(), reordered.output.bytes());
}

// Legal, and must cost nothing per batch element.
TEST_F(TiledAttentionTest, HugeProblemsWithoutQueriesAreDoneAtOnce) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  for (const auto& [batch, queries, keys] : {std::tuple<int64_t, int64_t, int64_t>{int64_t{1} << 40, 0, 0},
                                             {0, 1 << 20, 1 << 20},
                                             {int64_t{1} << 40, 0, 5},
                                             {1, 0, int64_t{1} << 40}}) {
    Case c = Causal(queries, keys, CausalAlignment::kTopLeft, 16);
    c.shape.batch = batch;
    const AttentionProblem problem = MakeProblem(c);
    EXPECT_LT(PredictScratchBytes(problem, *kernels), 1 << 16);
    auto job = TiledAttention::Create(problem, {}, {}, *kernels);
    ASSERT_TRUE(job.ok());
    EXPECT_TRUE((*job)->finished());
    EXPECT_EQ((*job)->Step(1).outcome, TileSource::Outcome::kExhausted);
    EXPECT_TRUE((*job)->status().ok());
    EXPECT_EQ((*job)->parallelism(), 1);
  }
}

// A worker that comes before another has packed is told to come back, and everyone is told the end.
TEST_F(TiledAttentionTest, StepsTellWhatToDoNext) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  const AttentionProblem problem = MakeProblem(Causal(300, 256, CausalAlignment::kNone));
  Inputs inputs(problem, 14);
  Results results(problem);
  auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
  ASSERT_TRUE(job.ok());
  omp_set_num_threads(1);
  const auto packed = (*job)->Step(0);
  EXPECT_EQ(packed.outcome, TileSource::Outcome::kAdvanced);
  EXPECT_TRUE(packed.packing);
  EXPECT_GT(packed.multiply_adds, 0);
  int tiles = 0;
  int64_t multiply_adds = 0;
  while (!(*job)->finished()) {
    const auto step = (*job)->Step(tiles % 2);
    ASSERT_EQ(step.outcome, TileSource::Outcome::kAdvanced);
    EXPECT_FALSE(step.packing);
    multiply_adds += step.multiply_adds;
    ++tiles;
  }
  EXPECT_EQ(tiles, 5) << "600 rows";
  EXPECT_EQ(multiply_adds, (*job)->total_multiply_adds());
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_EQ((*job)->Step(worker).outcome, TileSource::Outcome::kExhausted);
  }
}

// Waking a worker costs more than a small job.
TEST_F(TiledAttentionTest, AsManyWorkersAreUsefulAsThereIsWorkFor) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(16, &buffers);
  const auto parallelism = [&](int64_t length) {
    const AttentionProblem problem = MakeProblem(Causal(length, length, CausalAlignment::kNone));
    Inputs inputs(problem, 16);
    Results results(problem);
    return (*TiledAttention::Create(problem, inputs.all(), results.all(), *kernels))->parallelism();
  };
  EXPECT_EQ(parallelism(16), 1);
  EXPECT_EQ(parallelism(90), 1) << "2.1 million multiply-adds";
  EXPECT_EQ(parallelism(128), 2) << "4.2 million";
  EXPECT_EQ(parallelism(256), 8) << "16.8 million";
  EXPECT_EQ(parallelism(1024), 16);
}

// One worker stands still with a claimed item at every possible moment; the others finish what they can.
TEST_F(TiledAttentionTest, AWorkerThatPausesBlocksNobodyForGood) {
  Case c = Causal(70, 300, CausalAlignment::kTopLeft);
  c.shape.batch = 4;
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 15);
  const Results expected = Compute(problem, inputs);
  BufferPool buffers(0);
  const auto kernels = MakeKernels(3, &buffers);
  omp_set_num_threads(1);
  for (int pause = 0; pause < 12; ++pause) {
    Results results(problem);
    auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
    ASSERT_TRUE(job.ok());
    for (int i = 0; i < pause; ++i) (*job)->Step(2);
    bool exhausted[2] = {false, false};
    for (int i = 0; !(exhausted[0] && exhausted[1]); ++i) {
      ASSERT_LT(i, 10000);
      const auto outcome = (*job)->Step(i % 2).outcome;
      ASSERT_NE(outcome, TileSource::Outcome::kBlocked) << "nobody is packing";
      exhausted[i % 2] |= outcome == TileSource::Outcome::kExhausted;
    }
    while ((*job)->Step(2).outcome == TileSource::Outcome::kAdvanced) {
    }
    EXPECT_TRUE((*job)->finished());
    EXPECT_EQ(results.output.bytes(), expected.output.bytes());
  }
}

TEST_F(TiledAttentionTest, JobsSideBySideDoNotDisturbEachOther) {
  BufferPool buffers(int64_t{16} << 20);
  const auto kernels = MakeKernels(2, &buffers);
  const AttentionProblem first = MakeProblem(Causal(150, 260, CausalAlignment::kTopLeft));
  const AttentionProblem second = MakeProblem(Causal(90, 500, CausalAlignment::kNone, 33));
  Inputs first_inputs(first, 16), second_inputs(second, 17);
  const Results first_alone = Compute(first, first_inputs), second_alone = Compute(second, second_inputs);
  Results first_results(first), second_results(second);
  auto a = TiledAttention::Create(first, first_inputs.all(), first_results.all(), *kernels);
  auto b = TiledAttention::Create(second, second_inputs.all(), second_results.all(), *kernels);
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      omp_set_num_threads(1);
      while (!(*a)->finished() || !(*b)->finished()) {
        (*a)->Step(worker);
        (*b)->Step(worker);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first_results.output.bytes(), first_alone.output.bytes());
  EXPECT_EQ(second_results.output.bytes(), second_alone.output.bytes());
}

// What is predicted is never less than what is taken, and does not grow with the number of heads or queries.
TEST_F(TiledAttentionTest, ScratchIsBoundedAndConstant) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  const int64_t idle = buffers.used_bytes();
  omp_set_num_threads(1);
  const auto measure = [&](const Case& c) {
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 18);
    Results results(problem);
    auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
    EXPECT_TRUE(job.ok());
    const int64_t predicted = PredictScratchBytes(problem, *kernels);
    int64_t most = 0;
    for (int i = 0; !(*job)->finished(); ++i) {
      (*job)->Step(i % 2);
      most = std::max(most, buffers.used_bytes() - idle);
    }
    EXPECT_LE(most, predicted);
    EXPECT_GE(most, predicted / 3) << "a bound of use";
    return predicted;
  };
  Case c = Causal(500, 600, CausalAlignment::kNone);
  const int64_t base = measure(c);
  c.shape.query_length = 1100;
  EXPECT_LE(measure(c), base * 11 / 10) << "query blocks may grow to their full size";
  c.shape.query_length = 300;
  c.shape.query_heads = c.shape.kv_heads = 6;
  const int64_t heads = measure(c);
  c.shape.batch = 3;
  EXPECT_EQ(measure(c), heads);
  c.shape.head_dim = 17;
  c.type = ElementType::kFloat16;
  c.options.layout = Layout::kBNHD;
  c.results.weights = true;
  measure(c);
}

TEST_F(TiledAttentionTest, RunningOutOfMemoryIsReported) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(1, &buffers);
  Case c = Causal(40, (int64_t{1} << 40) - 1, CausalAlignment::kNone, 1024);
  const AttentionProblem problem = MakeProblem(c);
  float unused = 0;
  auto job = TiledAttention::Create(problem, {&unused, &unused, &unused}, {&unused, nullptr, nullptr}, *kernels);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)->Step(0).outcome, TileSource::Outcome::kExhausted);
  EXPECT_TRUE((*job)->finished());
  EXPECT_EQ((*job)->status().code(), absl::StatusCode::kResourceExhausted) << (*job)->status();
}

}  // namespace
}  // namespace attend::core
