// Where each number of a problem lies in memory, by hand.
#include "tests/testing/problem_values.h"

#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/generators.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::ElementType;
using core::Layout;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr AttentionShape kShape = {
    .batch = 2, .query_heads = 2, .kv_heads = 1, .query_length = 3, .key_length = 2, .head_dim = 2, .value_dim = 1};

AttentionProblem MakeProblem(const AttentionOptions& options, const core::ResultSelection& results = {},
                             ElementType type = ElementType::kFloat32) {
  return AttentionProblem::Create(kShape, type, options, results).value();
}

float FloatAt(const void* bytes, int64_t index) {
  float element = 0;
  std::memcpy(&element, static_cast<const std::byte*>(bytes) + index * sizeof(float), sizeof(float));
  return element;
}

TEST(ProblemValuesTest, LayoutsHoldTheSameNumbers) {
  const AttentionProblem bhnd = MakeProblem({});
  const ProblemValues values = Generate(bhnd, 1);
  const float element = values.query[QueryIndex(bhnd, 1, 1, 2) + 1];
  EXPECT_EQ(FloatAt(ProblemBytes(bhnd, values).query(), ((1 * 2 + 1) * 3 + 2) * 2 + 1), element);
  EXPECT_EQ(
      FloatAt(ProblemBytes(MakeProblem({.layout = Layout::kBNHD}), values).query(), ((1 * 3 + 2) * 2 + 1) * 2 + 1),
      element);
}

// Sequence 1 has query 2 alone: row 2 of 3, then head 1 of 2.
TEST(ProblemValuesTest, SequencesLieTokenByToken) {
  const AttentionProblem problem =
      MakeProblem({.layout = Layout::kTHD, .query_starts = {0, 2, 3}, .key_starts = {0, 0, 2}});
  const ProblemValues values = Generate(problem, 2);
  EXPECT_EQ(values.query.size(), 2 * 3 * 2);
  EXPECT_EQ(FloatAt(ProblemBytes(problem, values).query(), (2 * 2 + 1) * 2 + 1),
            values.query[QueryIndex(problem, 1, 1, 0) + 1]);
  ProblemResults results(problem);
  ASSERT_EQ(results.output.size(), 3 * 2 * sizeof(float));
  const float written = 9;
  std::memcpy(results.output.data() + (2 * 2 + 1) * sizeof(float), &written, sizeof(float));
  EXPECT_EQ(results.OutputValues(problem)[OutputIndex(problem, 1, 1, 0)], 9);
}

TEST(ProblemValuesTest, MaskAndBiasHaveTheirOwnShapeAndType) {
  AttentionOptions options;
  options.mask = {.shape = {2, 1, 3, 1}};
  options.bias = {.shape = {3, 2}, .type = ElementType::kBFloat16};
  const AttentionProblem problem = MakeProblem(options);
  ProblemValues values = Generate(problem, 3);
  ASSERT_EQ(values.mask.size(), 6);
  ASSERT_EQ(values.bias.size(), 6);
  for (float element : values.bias) EXPECT_EQ(element, RoundTo(ElementType::kBFloat16, element));
  values.mask[5] = 77;
  values.bias[5] = -2;
  const ProblemBytes bytes(problem, values);
  EXPECT_EQ(bytes.inputs().mask[5], 77);
  uint16_t bits = 0;
  std::memcpy(&bits, bytes.bias() + 5 * sizeof(bits), sizeof(bits));
  EXPECT_EQ(bits, 0xC000);  // -2
}

TEST(ProblemValuesTest, RowsOfWeightsAndScores) {
  const AttentionProblem all = MakeProblem({}, {.weights = true});
  EXPECT_EQ(WeightsIndex(all, {1, 1, 2}), ((1 * 2 + 1) * 3 + 2) * 2);
  const AttentionProblem some =
      MakeProblem({}, {.weights = true, .weight_query_rows = {2, 0}, .scores = core::ScoreStage::kScaled});
  EXPECT_EQ(WeightsIndex(some, {1, 1, 0}), ((1 * 2 + 1) * 2 + 1) * 2);
  EXPECT_EQ(WeightsIndex(some, {1, 1, 1}), std::nullopt);
  EXPECT_EQ(ScoresIndex(some, {0, 1, 2}), (1 * 2 + 0) * 2);
  const AttentionProblem averaged =
      MakeProblem({}, {.weights = true, .weight_query_rows = {2, 0}, .average_weights_over_heads = true});
  EXPECT_EQ(WeightsIndex(averaged, {1, 1, 0}), (1 * 2 + 1) * 2);
  EXPECT_EQ(ProblemResults(averaged).weights.size(), 2 * 2 * 2);
  EXPECT_EQ(ProblemResults(some).scores.size(), 2 * 2 * 2 * 2);
}

TEST(ProblemValuesTest, OutputsMayBeFloatsOrOmitted) {
  const AttentionProblem floats = MakeProblem({.output_type = ElementType::kFloat32}, {}, ElementType::kFloat16);
  EXPECT_EQ(ProblemResults(floats).output.size(), 2 * 2 * 3 * sizeof(float));
  const AttentionProblem omitted = MakeProblem({}, {.logsumexp = true, .omit_output = true});
  EXPECT_TRUE(ProblemResults(omitted).output.empty());
  EXPECT_TRUE(ProblemResults(omitted).OutputValues(omitted).empty());
}

TEST(ProblemValuesTest, DescriptionsNameEveryOption) {
  AttentionOptions options = {.softcap = 2, .query_offset = {1, -1}, .window_left = 3, .sinks = {0.5, 1}};
  options.mask = {.shape = {3, 1}};
  EXPECT_EQ(Describe(MakeProblem(options, {.weights = true, .average_weights_over_heads = true})),
            "f32 b2 h2/1 q3 k2 d2/1 softcap=2 query_offset=1,-1 window_left=3 mask=3x1 sinks=0.5,1 weights averaged");
}

TEST(GenerateTest, MasksAndBiases) {
  AttentionOptions options;
  options.mask = {.shape = {2, 2, 3, 2}};
  options.bias = {.shape = {1, 1}};
  const AttentionProblem problem = MakeProblem(options);
  EXPECT_EQ(Generate(problem, 4).mask, Generate(problem, 4).mask);
  EXPECT_THAT(Generate(problem, 4, {.mask = Constant(0)}).mask, Each(0));
  EXPECT_THAT(Generate(problem, 4, {.bias = OneIn(1, 5, Normal())}).bias, ElementsAre(5));
}

}  // namespace
}  // namespace attend::testing
