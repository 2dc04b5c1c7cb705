#include "client/problem_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "client/attend_message.h"
#include "client/tensor.h"
#include "client/working_memory.h"

namespace attend::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

PlannedProblem Square(int64_t length, int64_t heads, int64_t dim) {
  return {.axes = {.batch = 1,
                   .query_heads = heads,
                   .kv_heads = heads,
                   .query_length = length,
                   .key_length = length,
                   .head_dim = dim,
                   .value_dim = dim}};
}

// "Attention over 2048 tokens with heads of 128 is two products of 2048 x 2048 x 128."
TEST(ProblemCost, OneHeadOfGpt3) {
  const auto cost = CostOf(Square(2048, 1, 128));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->multiply_adds, int64_t{2} * 2048 * 2048 * 128);
  EXPECT_EQ(cost->multiply_adds, 1'073'741'824);
  EXPECT_EQ(cost->sizes.inputs(), 3 * kMiB);
  EXPECT_EQ(cost->sizes.results(), kMiB);
}

TEST(ProblemCost, TheMatrixThatIsNotStored) {
  EXPECT_EQ(CostOf(Square(4096, 1, 128))->score_matrix, 64 * kMiB);
  // Llama 3 8B has 32 layers of 32 heads.
  PlannedProblem stack = Square(4096, 32, 128);
  stack.axes.batch = 32;
  EXPECT_EQ(CostOf(stack)->score_matrix, 64 * kGiB);
}

TEST(ProblemCost, AHundredThousandTokens) {
  EXPECT_EQ(CostOf(Square(131'072, 1, 128))->scores_per_head, 17'179'869'184);
}

// However long the keys are, what computing takes besides inputs and results grows as they do, not as their square.
TEST(ProblemCost, WorkingMemoryIsNotTheMatrix) {
  const auto working = [](int64_t length) {
    const PlannedProblem problem = Square(length, 32, 128);
    return PredictWorkingMemory(problem, *CostOf(problem), {}).total;
  };
  EXPECT_LT(working(131'072), 33 * working(4096));
  EXPECT_LT(working(131'072), CostOf(Square(131'072, 32, 128))->score_matrix / 1000);
}

// The keys that each query sees, one by one.
int64_t CountVisible(const PlannedProblem& problem) {
  int64_t count = 0;
  for (int64_t i = 0; i < problem.axes.query_length; ++i) {
    const KeyPositions visible = VisibleKeys(problem, i);
    count += visible.end - visible.begin;
  }
  return count;
}

using Numbers = std::vector<int64_t>;

class ProblemCostTest
    : public ::testing::TestWithParam<std::tuple<v1::CausalAlignment, int64_t, int64_t, int64_t, int64_t>> {};

INSTANTIATE_TEST_SUITE_P(Masks, ProblemCostTest,
                         ::testing::Combine(::testing::Values(v1::CAUSAL_ALIGNMENT_NONE, v1::CAUSAL_ALIGNMENT_TOP_LEFT,
                                                              v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT),
                                            ::testing::ValuesIn(Numbers{-1, 0, 1, 5, 100}),
                                            ::testing::ValuesIn(Numbers{-1, 0, 2, 100}),
                                            ::testing::ValuesIn(Numbers{1, 4, 9}),
                                            ::testing::ValuesIn(Numbers{1, 4, 13})));

TEST_P(ProblemCostTest, MultiplyAddsOfVisibleKeys) {
  const auto& [causal, left, right, queries, keys] = GetParam();
  PlannedProblem problem = Square(queries, 6, 8);
  problem.axes.key_length = keys;
  problem.axes.batch = 2;
  problem.axes.value_dim = 5;
  problem.causal = causal;
  problem.window_left = left;
  problem.window_right = right;
  EXPECT_EQ(CostOf(problem)->multiply_adds, CountVisible(problem) * 2 * 6 * (8 + 5));
}

TEST(ProblemCost, VisibleKeysOfOneQuery) {
  PlannedProblem problem = Square(4, 1, 8);
  problem.axes.key_length = 7;
  problem.causal = v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT;
  problem.window_left = 2;
  EXPECT_EQ(VisibleKeys(problem, 0).begin, 1);
  EXPECT_EQ(VisibleKeys(problem, 0).end, 4);
  problem.causal = v1::CAUSAL_ALIGNMENT_TOP_LEFT;
  EXPECT_EQ(VisibleKeys(problem, 0).begin, 0);
  EXPECT_EQ(VisibleKeys(problem, 0).end, 1);
  problem.window_left = INT64_MAX;
  problem.window_right = INT64_MAX;
  EXPECT_EQ(CostOf(problem)->multiply_adds, (1 + 2 + 3 + 4) * 16);
}

TEST(ProblemCost, ResultsThatAreAskedFor) {
  PlannedProblem problem = Square(10, 4, 8);
  problem.axes.batch = 3;
  problem.element_type = v1::DATA_TYPE_BFLOAT16;
  problem.weights = true;
  problem.scores = v1::SCORE_STAGE_MASKED;
  problem.logsumexp = true;
  TensorSizes sizes = CostOf(problem)->sizes;
  EXPECT_EQ(sizes.query, 3 * 4 * 10 * 8 * 2);
  EXPECT_EQ(sizes.output, 3 * 4 * 10 * 8 * 2);
  EXPECT_EQ(sizes.weights, 3 * 4 * 10 * 10 * 4);
  EXPECT_EQ(sizes.scores, 3 * 4 * 10 * 10 * 4);
  EXPECT_EQ(sizes.logsumexp, 3 * 4 * 10 * 4);
  problem.average_weights = true;
  problem.output_type = v1::DATA_TYPE_FLOAT32;
  sizes = CostOf(problem)->sizes;
  EXPECT_EQ(sizes.weights, 3 * 10 * 10 * 4);
  EXPECT_EQ(sizes.output, 3 * 4 * 10 * 8 * 4);
  problem.omit_output = true;
  EXPECT_EQ(CostOf(problem)->sizes.output, 0);
}

// The message as it is sent, byte by byte.
TEST(ProblemCost, RequestMessages) {
  for (const int64_t length : {1, 5, 130, 3000}) {
    PlannedProblem problem = Square(length, 2, 16);
    problem.causal = v1::CAUSAL_ALIGNMENT_TOP_LEFT;
    problem.window_left = length;
    problem.logsumexp = true;
    const ProblemCost cost = *CostOf(problem);
    const std::vector<std::byte> data(static_cast<size_t>(cost.sizes.query));
    AttendRequest request;
    for (TensorView* tensor : {&request.query, &request.key, &request.value}) {
      *tensor = {.data_type = v1::DATA_TYPE_FLOAT32, .shape = {1, 2, length, 16}, .data = data};
    }
    request.options.set_causal(problem.causal);
    request.options.set_window_left(length);
    request.results.set_logsumexp(true);
    EXPECT_EQ(cost.request_message, static_cast<int64_t>(EncodeAttendRequest(request, nullptr)->Length())) << length;
  }
}

TEST(ProblemCost, ShapesThatOverflow) {
  const auto refusal = [](const PlannedProblem& problem) { return std::string(CostOf(problem).status().message()); };
  EXPECT_EQ(refusal(Square(int64_t{1} << 60, 1, 64)),
            "query of [1, 1, 1152921504606846976, 64] f32 has too many bytes: more than 2^63 - 1");
  EXPECT_THAT(refusal(Square(INT64_MAX, INT64_MAX, INT64_MAX)), HasSubstr("query of "));
  // Inputs fit, the matrix does not.
  EXPECT_THAT(refusal(Square(int64_t{1} << 32, 1, 64)),
              HasSubstr("the N x N matrix of [1, 1, 4294967296, 4294967296] f32 has too many bytes"));
  // The matrix fits, its products do not.
  EXPECT_THAT(refusal(Square(int64_t{1} << 29, 4, 64)),
              AllOf(HasSubstr("[1, 4, 536870912, 536870912, 64, 64]"), HasSubstr("has too many multiply-adds")));
  PlannedProblem problem = Square(int64_t{1} << 29, 4, 64);
  problem.window_left = 10;
  EXPECT_THAT(refusal(problem), HasSubstr("multiply-adds")) << "a window on one side alone";
  problem.causal = v1::CAUSAL_ALIGNMENT_TOP_LEFT;
  EXPECT_EQ(refusal(problem), "");
}

}  // namespace
}  // namespace attend::client
