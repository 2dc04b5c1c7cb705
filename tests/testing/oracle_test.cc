// The oracle against numbers worked out by hand.
#include "tests/testing/oracle.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/generators.h"
#include "tests/testing/yardstick.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

AttentionProblem MakeProblem(const AttentionShape& shape, const AttentionOptions& options = {},
                             ElementType type = ElementType::kFloat32) {
  return AttentionProblem::Create(shape, type, options).value();
}

// One head of one query of dim 1 whose scores are the keys themselves and whose values are 1, 10, 100, ...
ProblemValues ScoresAre(const std::vector<float>& scores) {
  ProblemValues values;
  values.query = {1};
  float value = 1;
  for (float score : scores) {
    values.key.push_back(score);
    values.value.push_back(value);
    value *= 10;
  }
  return values;
}

AttentionProblem OneQuery(int64_t keys, AttentionOptions options = {}) {
  options.scale = 1.0F;
  return MakeProblem({.query_length = 1, .key_length = keys, .head_dim = 1, .value_dim = 1}, options);
}

TEST(OracleTest, WorkedExample) {
  const AttentionProblem problem = MakeProblem({.query_length = 1, .key_length = 3, .head_dim = 4, .value_dim = 4});
  ProblemValues values;
  values.query = {1, 0, 0.5, 1};
  values.key = {1, 0, 0.8, 1, 0, 1, 0.2, 0, 0.2, 0.2, 0.4, 0.1};
  values.value = {0.9, 0.1, 0.7, 0.8, 0.1, 0.9, 0.2, 0.1, 0.3, 0.3, 0.5, 0.2};
  const OracleRow row = ComputeOracleRow(problem, values, {});
  const auto near = [](double want) { return DoubleNear(want, 0.00005); };
  EXPECT_THAT(row.scaled, ElementsAre(near(1.20), near(0.05), near(0.25)));
  EXPECT_THAT(row.weights, ElementsAre(near(0.5871), near(0.1859), near(0.2270)));
  EXPECT_THAT(row.output, ElementsAre(near(0.6151), near(0.2941), near(0.5616), near(0.5337)));
}

// Weights 1/4 and 3/4, by scores 0 and ln 3: output 1/4 + 30/4, logsumexp ln 4.
TEST(OracleTest, TwoKeysByHand) {
  const OracleRow row = ComputeOracleRow(OneQuery(2), ScoresAre({0, std::log(3.0F)}), {});
  EXPECT_THAT(row.weights, ElementsAre(DoubleNear(0.25, 1e-7), DoubleNear(0.75, 1e-7)));
  EXPECT_THAT(row.output, ElementsAre(DoubleNear(7.75, 1e-6)));
  EXPECT_NEAR(row.logsumexp, 1.3862944, 1e-7);
}

TEST(OracleTest, ScaleDefaultsToOneOverTheRootOfHeadDim) {
  const AttentionShape shape = {.query_length = 1, .key_length = 1, .head_dim = 16, .value_dim = 1};
  ProblemValues values;
  values.query.assign(16, 1);
  values.key.assign(16, 2);
  values.value = {1};
  EXPECT_THAT(ComputeOracleRow(MakeProblem(shape), values, {}).scaled, ElementsAre(8));
  EXPECT_THAT(ComputeOracleRow(MakeProblem(shape, {.scale = -0.5F}), values, {}).scaled, ElementsAre(-16));
  EXPECT_THAT(ComputeOracleRow(MakeProblem(shape, {.scale = 0.0F}), values, {}).scaled, ElementsAre(0));
}

// Three queries, five keys; each row lists what it sees.
std::vector<std::vector<bool>> Visible(const AttentionShape& shape, const AttentionOptions& options, int64_t batch) {
  const AttentionProblem problem = MakeProblem(shape, options);
  std::vector<std::vector<bool>> rows;
  for (int64_t i = 0; i < shape.query_length; ++i) rows.push_back(VisibleKeys(problem, {}, {batch, 0, i}));
  return rows;
}

constexpr AttentionShape kWide = {.query_length = 3, .key_length = 5, .head_dim = 1, .value_dim = 1};
constexpr AttentionShape kTall = {.query_length = 4, .key_length = 2, .head_dim = 1, .value_dim = 1};

TEST(OracleTest, CausalCornersOfAWideProblem) {
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kTopLeft}, 0),
              ElementsAre(ElementsAre(1, 0, 0, 0, 0), ElementsAre(1, 1, 0, 0, 0), ElementsAre(1, 1, 1, 0, 0)));
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kBottomRight}, 0),
              ElementsAre(ElementsAre(1, 1, 1, 0, 0), ElementsAre(1, 1, 1, 1, 0), ElementsAre(1, 1, 1, 1, 1)));
}

TEST(OracleTest, CausalCornersOfATallProblem) {
  EXPECT_THAT(Visible(kTall, {.causal = CausalAlignment::kTopLeft}, 0),
              ElementsAre(ElementsAre(1, 0), ElementsAre(1, 1), ElementsAre(1, 1), ElementsAre(1, 1)));
  EXPECT_THAT(Visible(kTall, {.causal = CausalAlignment::kBottomRight}, 0),
              ElementsAre(ElementsAre(0, 0), ElementsAre(0, 0), ElementsAre(1, 0), ElementsAre(1, 1)));
}

// The corner moves to the last key that is there: an offset of 4 - 3 = 1.
TEST(OracleTest, KeyLengthsHideKeysAndMoveTheCorner) {
  AttentionShape shape = kWide;
  shape.batch = 3;
  const AttentionOptions options = {.causal = CausalAlignment::kBottomRight, .key_lengths = {5, 4, 0}};
  EXPECT_THAT(Visible(shape, options, 1),
              ElementsAre(ElementsAre(1, 1, 0, 0, 0), ElementsAre(1, 1, 1, 0, 0), ElementsAre(1, 1, 1, 1, 0)));
  EXPECT_THAT(Visible(shape, options, 2), Each(ElementsAre(0, 0, 0, 0, 0)));
  EXPECT_THAT(Visible(shape, {.key_lengths = {5, 2, 0}}, 1), Each(ElementsAre(1, 1, 0, 0, 0)));
}

TEST(OracleTest, RowWithoutKeys) {
  const OracleRow row =
      ComputeOracleRow(OneQuery(2, {.key_lengths = {0}}), ScoresAre({kNan, static_cast<float>(kInfinity)}), {});
  EXPECT_THAT(row.weights, ElementsAre(0, 0));
  EXPECT_THAT(row.output, ElementsAre(0));
  EXPECT_EQ(row.logsumexp, -kInfinity);
  const OracleRow no_keys = ComputeOracleRow(OneQuery(0), ScoresAre({}), {});
  EXPECT_THAT(no_keys.output, ElementsAre(0));
  EXPECT_EQ(no_keys.logsumexp, -kInfinity);
}

// Four query heads on two kv heads: heads 0 and 1 read the first, 2 and 3 the second.
TEST(OracleTest, GroupedHeads) {
  const AttentionProblem problem =
      MakeProblem({.query_heads = 4, .kv_heads = 2, .query_length = 1, .key_length = 1, .head_dim = 1, .value_dim = 1});
  ProblemValues values;
  values.query = {1, 2, 3, 4};
  values.key = {10, 20};
  values.value = {5, 7};
  for (int64_t h = 0; h < 4; ++h) {
    const OracleRow row = ComputeOracleRow(problem, values, {0, h, 0});
    EXPECT_THAT(row.scaled, ElementsAre((h + 1) * (h < 2 ? 10 : 20)));
    EXPECT_THAT(row.output, ElementsAre(h < 2 ? 5 : 7));
  }
}

TEST(OracleTest, InvisibleNumbersThatAreNotNumbersDoNotReachTheRow) {
  ProblemValues values = ScoresAre({0, kNan});
  values.value[1] = kNan;
  const OracleRow row = ComputeOracleRow(OneQuery(2, {.key_lengths = {1}}), values, {});
  EXPECT_THAT(row.weights, ElementsAre(1, 0));
  EXPECT_THAT(row.output, ElementsAre(1));
  EXPECT_EQ(row.logsumexp, 0);
}

void ExpectNanRow(const OracleRow& row) {
  EXPECT_THAT(row.output, Each(IsNan()));
  EXPECT_THAT(row.weights, Each(IsNan()));
  EXPECT_THAT(row.logsumexp, IsNan());
}

TEST(OracleTest, VisibleNumbersThatAreNotNumbersMakeTheRowNan) {
  const auto infinity = static_cast<float>(kInfinity);
  ExpectNanRow(ComputeOracleRow(OneQuery(2), ScoresAre({0, kNan}), {}));
  ExpectNanRow(ComputeOracleRow(OneQuery(2), ScoresAre({0, infinity}), {}));
  ExpectNanRow(ComputeOracleRow(OneQuery(2), ScoresAre({-infinity, -infinity}), {}));
  EXPECT_THAT(ComputeOracleRow(OneQuery(2), ScoresAre({0, -infinity}), {}).weights, ElementsAre(1, 0));
}

// 3e38 and 3e38 have a sum beyond f32, and so does 2e19 squared; 1e38 is an ordinary score.
TEST(OracleTest, WhatOverflowsFloat32IsInfinite) {
  const AttentionShape shape = {.query_length = 1, .key_length = 1, .head_dim = 2, .value_dim = 1};
  const AttentionProblem problem = MakeProblem(shape, {.scale = 0.5F});
  ProblemValues values;
  values.value = {1};
  values.query = {3e38F, 3e38F};
  values.key = {1, 1};
  EXPECT_THAT(ComputeOracleRow(problem, values, {}).scaled, ElementsAre(kInfinity));
  values.query = {2e19F, 0};
  values.key = {-2e19F, 0};
  EXPECT_THAT(ComputeOracleRow(problem, values, {}).scaled, ElementsAre(-kInfinity));
  values.query = {1e38F, 0};
  values.key = {1, 0};
  EXPECT_THAT(ComputeOracleRow(problem, values, {}).weights, ElementsAre(1));
}

// Rounded to bf16 (8 bits), 1 + 2^-9 is 1 and the third of 1 is 0.33398.
TEST(YardstickTest, RoundsEachStepToTheTypeOfTheRequest) {
  const AttentionProblem problem = OneQuery(3);
  const ProblemValues values = ScoresAre({1 + 0x1p-9F, 1, 1});
  const NaiveRow row = ComputeNaiveRow(
      problem, values, {}, {true, true, true},
      {.inputs = ElementType::kFloat32, .scores = ElementType::kBFloat16, .results = ElementType::kBFloat16});
  EXPECT_THAT(row.masked, Each(1));
  EXPECT_THAT(row.weights, Each(0.333984375F));
  EXPECT_EQ(row.output.front(), 37);  // 111 * 0.33398 = 37.07
}

TEST(YardstickTest, KeepsScoresThatOverflowTheType) {
  const ProblemValues values = ScoresAre({70000, 69999});
  const NaiveRow row = ComputeNaiveRow(
      OneQuery(2), values, {}, {true, true},
      {.inputs = ElementType::kFloat32, .scores = ElementType::kFloat16, .results = ElementType::kFloat16});
  EXPECT_THAT(row.masked, ElementsAre(70000, 69999));
  EXPECT_NEAR(row.weights[0], 0.7311, 0.0005);
}

// 1 + 2^-9 in f32 is 1 in bf16's inputs already; the scores that follow are then kept.
TEST(YardstickTest, RoundsInputsForAComputeType) {
  const AttentionProblem problem = OneQuery(1, {.compute_type = core::ComputeType::kBFloat16});
  EXPECT_EQ(NaiveType(problem), ElementType::kBFloat16);
  EXPECT_EQ(NaiveType(OneQuery(1)), ElementType::kFloat32);
  const NaiveRow row = ComputeNaiveRow(
      problem, ScoresAre({1 + 0x1p-9F}), {}, {true},
      {.inputs = ElementType::kBFloat16, .scores = ElementType::kFloat32, .results = ElementType::kBFloat16});
  EXPECT_THAT(row.scaled, ElementsAre(1));
}

// The yardstick does every step that the oracle does: weights 1/8, 2/8 and 4/8, and 1/8 for the sink.
TEST(YardstickTest, HasEveryOption) {
  const auto ln2 = static_cast<float>(std::log(2.0));
  AttentionOptions options = {.softcap = ln2 * 5 / 3};  // tanh(ln 2) is 3/5
  options.bias = core::BroadcastTensor{.shape = {1, 4}};
  options.alibi_slopes = {ln2};
  options.sinks = {0};
  ProblemValues values = ScoresAre({0, ln2 * ln2 * 5 / 3, 0, 5});
  values.bias = {0, ln2, 4 * ln2, 0};  // with softcap and ALiBi: 0, ln 2 + ln 2 - ln 2, 4 ln 2 - 2 ln 2
  const NaiveRow row = ComputeNaiveRow(
      OneQuery(4, options), values, {}, {true, true, true, false},
      {.inputs = ElementType::kFloat32, .scores = ElementType::kFloat32, .results = ElementType::kFloat32});
  const auto near = [](float want) { return ::testing::FloatNear(want, 1e-6F); };
  EXPECT_THAT(row.weights, ElementsAre(near(0.125), near(0.25), near(0.5), 0));
  EXPECT_THAT(row.output, ElementsAre(near(0.125F + 2.5F + 50)));
  EXPECT_NEAR(row.logsumexp, 3 * ln2, 1e-6);
}

TEST(YardstickTest, RowWithoutKeys) {
  const NaiveRow row = ComputeNaiveRow(
      OneQuery(1), ScoresAre({1}), {}, {false},
      {.inputs = ElementType::kFloat32, .scores = ElementType::kFloat32, .results = ElementType::kFloat32});
  EXPECT_THAT(row.weights, ElementsAre(0));
  EXPECT_THAT(row.output, ElementsAre(0));
  EXPECT_EQ(row.logsumexp, -kInfinity);
}

}  // namespace
}  // namespace attend::testing
