// The client's predictions beside the core's own, on random problems of every kind: equal, all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/problem_cost.h"
#include "client/working_memory.h"
#include "core/attention_problem.h"
#include "core/instruction_set.h"
#include "core/tiled_attention.h"
#include "server/response_writer.h"
#include "tests/conformance/core_runner.h"
#include "tests/integration/wire_problem.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;

// A problem whose batch elements are alike: lengths around the borders of tiles and splits, few and many heads.
AttentionProblem DrawAlike(Draw& draw) {
  constexpr int64_t kLengths[] = {1, 2, 3, 15, 16, 17, 64, 100, 128, 256, 257, 512, 1000, 4096, 33000, 131072};
  constexpr int64_t kDims[] = {1, 8, 16, 40, 64, 128, 129, 256, 1024};
  const int64_t kv_heads = draw.From({1, 1, 2, 3, 8});
  const core::AttentionShape shape = {.batch = draw.From({1, 1, 2, 5, 40}),
                                      .query_heads = kv_heads * draw.From({1, 1, 2, 4, 7, 16, 150}),
                                      .kv_heads = kv_heads,
                                      .query_length = draw.From(kLengths),
                                      .key_length = draw.From(kLengths),
                                      .head_dim = draw.From(kDims),
                                      .value_dim = draw.From(kDims)};
  const auto type = draw.From({core::ElementType::kFloat32, core::ElementType::kBFloat16, core::ElementType::kFloat16});
  core::AttentionOptions options;
  options.layout = draw.OneIn(3) ? core::Layout::kBNHD : core::Layout::kBHND;
  options.causal =
      draw.From({core::CausalAlignment::kNone, core::CausalAlignment::kTopLeft, core::CausalAlignment::kBottomRight});
  if (draw.OneIn(3)) options.window_left = draw.Between(0, 2000);
  if (draw.OneIn(3)) options.window_right = draw.Between(0, 2000);
  if (type != core::ElementType::kFloat16 && draw.OneIn(3)) options.compute_type = core::ComputeType::kBFloat16;
  if (draw.OneIn(3)) options.output_type = core::ElementType::kFloat32;
  core::ResultSelection results;
  results.weights = draw.OneIn(3);
  results.average_weights_over_heads = results.weights && draw.OneIn(2);
  if (draw.OneIn(3)) {
    results.scores = draw.From({core::ScoreStage::kScaled, core::ScoreStage::kSoftcapped, core::ScoreStage::kMasked});
  }
  results.logsumexp = draw.OneIn(3);
  results.omit_output = draw.OneIn(4) && (results.weights || results.logsumexp);
  auto problem = AttentionProblem::Create(shape, type, options, results);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

client::PlannedProblem Plan(const AttentionProblem& problem) {
  const core::AttentionShape& shape = problem.shape();
  const v1::AttentionOptions options = WireOptions(problem);
  const v1::ResultSelection results = WireResults(problem);
  return {.axes = {.batch = shape.batch,
                   .query_heads = shape.query_heads,
                   .kv_heads = shape.kv_heads,
                   .query_length = shape.query_length,
                   .key_length = shape.key_length,
                   .head_dim = shape.head_dim,
                   .value_dim = shape.value_dim},
          .element_type = WireType(problem.type()),
          .layout = options.layout(),
          .causal = options.causal(),
          .window_left = problem.options().window_left,
          .window_right = problem.options().window_right,
          .compute_type = options.compute_type(),
          .output_type = WireType(problem.output_type()),
          .omit_output = results.omit_output(),
          .weights = results.weights(),
          .average_weights = results.average_weights_over_heads(),
          .scores = results.scores(),
          .logsumexp = results.logsumexp()};
}

void ExpectAgreement(const AttentionProblem& problem, CoreRunner& runner) {
  const client::PlannedProblem plan = Plan(problem);
  const auto cost = client::CostOf(plan);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->multiply_adds, problem.MultiplyAdds());
  EXPECT_EQ(cost->sizes.query, problem.QueryBytes());
  EXPECT_EQ(cost->sizes.key, problem.KeyBytes());
  EXPECT_EQ(cost->sizes.value, problem.ValueBytes());
  EXPECT_EQ(cost->sizes.output, problem.OutputBytes());
  EXPECT_EQ(cost->sizes.weights, problem.WeightsBytes());
  EXPECT_EQ(cost->sizes.scores, problem.ScoresBytes());
  EXPECT_EQ(cost->sizes.logsumexp, problem.LogsumexpBytes());
  EXPECT_EQ(cost->response_message, server::PredictResponseBytes(problem));
  const core::TileKernels& kernels = runner.kernels();
  const client::ComputeSetup setup = {
      .compute_threads = kernels.workers(),
      .instruction_set = std::string(core::InstructionSetName(kernels.instruction_set()))};
  EXPECT_EQ(client::PredictWorkingMemory(plan, *cost, setup).total, core::PredictScratchBytes(problem, kernels))
      << setup.compute_threads << " threads, " << setup.instruction_set;
}

TEST(EstimateAgreement, OnRandomProblems) {
  std::vector<std::unique_ptr<CoreRunner>> runners;
  for (const int workers : {1, 2, 3, 16}) {
    auto runner = CoreRunner::Create(workers);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runners.push_back(*std::move(runner));
  }
  const uint64_t seed = std::random_device()();
  Draw draw(seed);
  for (int i = 0; i < 3000 && !HasFailure(); ++i) {
    const AttentionProblem problem = DrawAlike(draw);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", problem " << i << ": " << Describe(problem));
    ExpectAgreement(problem, *draw.From({runners[0].get(), runners[1].get(), runners[2].get(), runners[3].get()}));
  }
}

}  // namespace
}  // namespace attend::testing
