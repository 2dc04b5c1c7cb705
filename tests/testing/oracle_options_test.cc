// Each option of the oracle against numbers worked out by hand. They are chosen so that hands suffice: scores that are
// logarithms of small whole numbers, and tanh(ln 2) = (4 - 1) / (4 + 1) = 3/5.
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/oracle.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::BroadcastTensor;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;
using core::ScoreStage;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kLargestOffset = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmallestOffset = std::numeric_limits<int64_t>::min();
const auto kLn2 = static_cast<float>(std::log(2.0));
const auto kLn3 = static_cast<float>(std::log(3.0));

auto Near(double want) { return DoubleNear(want, 1e-6); }

AttentionProblem MakeProblem(const AttentionShape& shape, const AttentionOptions& options) {
  return AttentionProblem::Create(shape, ElementType::kFloat32, options).value();
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

OracleRow RowOf(const ProblemValues& values, AttentionOptions options) {
  options.scale = 1.0F;
  const auto keys = static_cast<int64_t>(values.key.size());
  return ComputeOracleRow(MakeProblem({.query_length = 1, .key_length = keys, .head_dim = 1, .value_dim = 1}, options),
                          values, {});
}

void ExpectNanRow(const OracleRow& row) {
  EXPECT_THAT(row.output, Each(IsNan()));
  EXPECT_THAT(row.weights, Each(IsNan()));
  EXPECT_THAT(row.logsumexp, IsNan());
}

// What each of the queries sees, with all scores and values 0.
std::vector<std::vector<bool>> Visible(const AttentionShape& shape, const AttentionOptions& options, int64_t b = 0) {
  const AttentionProblem problem = MakeProblem(shape, options);
  std::vector<std::vector<bool>> rows;
  for (int64_t i = 0; i < QueryRows(problem, b); ++i) rows.push_back(VisibleKeys(problem, {}, {b, 0, i}));
  return rows;
}

constexpr AttentionShape kWide = {.query_length = 3, .key_length = 5, .head_dim = 1, .value_dim = 1};

// A cap of 5/3 ln 2 makes a score of cap * ln 2 into cap * 3/5 = ln 2: weights 1/3 and 2/3.
TEST(OracleOptionsTest, Softcap) {
  const float cap = kLn2 * 5 / 3;
  const OracleRow row = RowOf(ScoresAre({0, cap * kLn2}), {.softcap = cap});
  EXPECT_THAT(row.scaled, ElementsAre(0, Near(cap * kLn2)));
  EXPECT_THAT(row.softcapped, ElementsAre(0, Near(kLn2)));
  EXPECT_THAT(row.masked, ElementsAre(0, Near(kLn2)));
  EXPECT_THAT(row.weights, ElementsAre(Near(1.0 / 3), Near(2.0 / 3)));
  EXPECT_NEAR(row.logsumexp, kLn3, 1e-6);
}

TEST(OracleOptionsTest, SoftcapBoundsInfiniteScoresAndKeepsNan) {
  const OracleRow row = RowOf(ScoresAre({kFloatInfinity, -kFloatInfinity, 10}), {.softcap = 10});
  EXPECT_THAT(row.softcapped, ElementsAre(10, -10, Near(10 * std::tanh(1.0))));
  EXPECT_FALSE(std::isnan(row.logsumexp));
  ExpectNanRow(RowOf(ScoresAre({0, kNan}), {.softcap = 10}));
}

TEST(OracleOptionsTest, Bias) {
  ProblemValues values = ScoresAre({0, 0});
  values.bias = {0, kLn3};
  const OracleRow row = RowOf(values, {.bias = BroadcastTensor{.shape = {1, 2}}});
  EXPECT_THAT(row.softcapped, ElementsAre(0, 0));
  EXPECT_THAT(row.masked, ElementsAre(0, Near(kLn3)));
  EXPECT_THAT(row.weights, ElementsAre(Near(0.25), Near(0.75)));
  EXPECT_THAT(row.output, ElementsAre(Near(7.75)));
}

TEST(OracleOptionsTest, ABiasIsAddedAfterTheSoftcap) {
  const float cap = kLn2 * 5 / 3;
  ProblemValues values = ScoresAre({0, cap * kLn2});
  values.bias = {0, kLn2};
  const OracleRow row = RowOf(values, {.softcap = cap, .bias = BroadcastTensor{.shape = {1, 2}}});
  EXPECT_THAT(row.weights, ElementsAre(Near(0.2), Near(0.8)));  // 1 : 4
}

TEST(OracleOptionsTest, ABiasOfMinusInfinityExcludes) {
  ProblemValues values = ScoresAre({5, 0});
  values.bias = {-kFloatInfinity, 0};
  values.value[0] = kNan;
  const OracleRow row = RowOf(values, {.bias = BroadcastTensor{.shape = {1, 2}}});
  EXPECT_THAT(row.visible, ElementsAre(false, true));
  EXPECT_THAT(row.scaled, ElementsAre(5, 0));
  EXPECT_THAT(row.masked, ElementsAre(-kInfinity, 0));
  EXPECT_THAT(row.weights, ElementsAre(0, 1));
  EXPECT_THAT(row.output, ElementsAre(10));
  values.bias = {-kFloatInfinity, -kFloatInfinity};
  const OracleRow empty = RowOf(values, {.bias = BroadcastTensor{.shape = {1, 2}}});
  EXPECT_THAT(empty.output, ElementsAre(0));
  EXPECT_EQ(empty.logsumexp, -kInfinity);
}

// Scores drown in -3.4e38: equal weights. A sum beyond f32 is -inf, by arithmetic: not weighed where others are there,
// NaN where none is.
TEST(OracleOptionsTest, LargeNegativeBiasesAreNumbers) {
  const AttentionOptions options = {.bias = BroadcastTensor{.shape = {1, 2}}};
  ProblemValues values = ScoresAre({3, 7});
  values.bias = {kLowest, kLowest};
  EXPECT_THAT(RowOf(values, options).weights, ElementsAre(0.5, 0.5));
  EXPECT_EQ(RowOf(values, options).logsumexp, double{kLowest});
  values.key = {-1e32F, 0};
  EXPECT_THAT(RowOf(values, options).masked, ElementsAre(-kInfinity, double{kLowest}));
  EXPECT_THAT(RowOf(values, options).weights, ElementsAre(0, 1));
  values.key = {-1e32F, -1e32F};
  ExpectNanRow(RowOf(values, options));
}

TEST(OracleOptionsTest, ABiasThatIsNotANumber) {
  const AttentionOptions options = {.bias = BroadcastTensor{.shape = {1, 2}}};
  ProblemValues values = ScoresAre({0, 0});
  for (float number : {kNan, kFloatInfinity}) {
    values.bias = {0, number};
    ExpectNanRow(RowOf(values, options));
    AttentionOptions masked = options;
    masked.mask = BroadcastTensor{.shape = {1, 2}};
    values.mask = {1, 0};
    EXPECT_THAT(RowOf(values, masked).weights, ElementsAre(1, 0));
  }
}

TEST(OracleOptionsTest, BooleanMask) {
  ProblemValues values = ScoresAre({0, kNan, 0, 0});
  values.mask = {1, 0, 2, 255};  // anything but 0 is true
  const OracleRow row = RowOf(values, {.mask = BroadcastTensor{.shape = {1, 4}}});
  EXPECT_THAT(row.visible, ElementsAre(true, false, true, true));
  EXPECT_THAT(row.weights, ElementsAre(Near(1.0 / 3), 0, Near(1.0 / 3), Near(1.0 / 3)));
  EXPECT_THAT(row.output, ElementsAre(Near((1 + 100 + 1000) / 3.0)));
}

// Element (b, h, i, j) = (1, 2, 3, 4) of [2, 3, 4, 5].
TEST(OracleOptionsTest, BroadcastingIsAlignedToTheRight) {
  const RowPosition at = {1, 2, 3};
  const auto index = [&](std::vector<int64_t> shape) { return BroadcastIndex({.shape = std::move(shape)}, at, 4); };
  EXPECT_EQ(index({2, 3, 4, 5}), 119);
  EXPECT_EQ(index({4, 5}), 19);
  EXPECT_EQ(index({1, 5}), 4);
  EXPECT_EQ(index({4, 1}), 3);
  EXPECT_EQ(index({1, 1}), 0);
  EXPECT_EQ(index({3, 4, 5}), 59);
  EXPECT_EQ(index({3, 1, 5}), 14);
  EXPECT_EQ(index({1, 4, 5}), 19);
  EXPECT_EQ(index({2, 1, 1, 5}), 9);
  EXPECT_EQ(index({1, 3, 1, 1}), 2);
  EXPECT_EQ(index({2, 1, 4, 1}), 7);
}

// A slope of ln 2 halves the weight with each step away from position 2: 1/4, 1/2, 1, 1/2, 1/4 of 5/2.
TEST(OracleOptionsTest, AlibiCountsFromTheQuerysOwnPosition) {
  const AttentionOptions options = {.alibi_slopes = {kLn2}};
  ProblemValues values;
  values.query = {0, 0, 0};
  values.key = {0, 0, 0, 0, 0};
  values.value = values.key;
  const auto last_row = [&](AttentionOptions with) {
    with.alibi_slopes = options.alibi_slopes;
    return ComputeOracleRow(MakeProblem(kWide, with), values, {0, 0, 2});
  };
  EXPECT_THAT(last_row({}).weights, ElementsAre(Near(0.1), Near(0.2), Near(0.4), Near(0.2), Near(0.1)));
  EXPECT_THAT(last_row({}).masked, ElementsAre(Near(-2 * kLn2), Near(-kLn2), 0, Near(-kLn2), Near(-2 * kLn2)));
  // The bottom right corner moves it to position 4: 1/16, ... 1 of 31/16.
  EXPECT_THAT(last_row({.causal = CausalAlignment::kBottomRight}).weights,
              ElementsAre(Near(1 / 31.0), Near(2 / 31.0), Near(4 / 31.0), Near(8 / 31.0), Near(16 / 31.0)));
  // An offset of -3, to position -1: distances 1 to 5.
  EXPECT_THAT(last_row({.query_offset = {-3}}).masked,
              ElementsAre(Near(-kLn2), Near(-2 * kLn2), Near(-3 * kLn2), Near(-4 * kLn2), Near(-5 * kLn2)));
}

TEST(OracleOptionsTest, AlibiSlopesAreThoseOfTheQueryHead) {
  const AttentionProblem problem =
      MakeProblem({.query_heads = 2, .kv_heads = 1, .query_length = 1, .key_length = 3, .head_dim = 1, .value_dim = 1},
                  {.alibi_slopes = {0.5, -2}});
  ProblemValues values = {.query = {0, 0}, .key = {0, 0, 0}, .value = {0, 0, 0}};
  EXPECT_THAT(ComputeOracleRow(problem, values, {0, 0, 0}).masked, ElementsAre(0, -0.5, -1));
  EXPECT_THAT(ComputeOracleRow(problem, values, {0, 1, 0}).masked, ElementsAre(0, 2, 4));
}

TEST(OracleOptionsTest, BiasAndAlibiAreBothAdded) {
  ProblemValues values = ScoresAre({1, 1});
  values.bias = {10, 20};
  const OracleRow row = RowOf(values, {.bias = BroadcastTensor{.shape = {1, 2}}, .alibi_slopes = {4}});
  EXPECT_THAT(row.masked, ElementsAre(11, 17));
}

// A sink of ln 3 beside a score of 0: 1/4 and 3/4, but nothing to weigh with the 3/4.
TEST(OracleOptionsTest, SinksCountInTheDenominatorAlone) {
  const OracleRow row = RowOf(ScoresAre({0}), {.sinks = {kLn3}});
  EXPECT_THAT(row.weights, ElementsAre(Near(0.25)));
  EXPECT_THAT(row.output, ElementsAre(Near(0.25)));
  EXPECT_NEAR(row.logsumexp, 2 * kLn2, 1e-6);
  const OracleRow below = RowOf(ScoresAre({kLn3, kLn2}), {.sinks = {-kLn2}});  // 3 : 2 : 1/2 of 11/2
  EXPECT_THAT(below.weights, ElementsAre(Near(6 / 11.0), Near(4 / 11.0)));
  const OracleRow none = RowOf(ScoresAre({0}), {.sinks = {-kFloatInfinity}});
  EXPECT_THAT(none.weights, ElementsAre(1));
  EXPECT_EQ(none.logsumexp, 0);
  const OracleRow large = RowOf(ScoresAre({0}), {.sinks = {1e4F}});  // exp(1e4) is no double
  EXPECT_THAT(large.weights, ElementsAre(0));
  EXPECT_EQ(large.logsumexp, 1e4);
}

TEST(OracleOptionsTest, SinksAreThoseOfTheQueryHead) {
  const AttentionProblem problem =
      MakeProblem({.query_heads = 2, .kv_heads = 1, .query_length = 1, .key_length = 1, .head_dim = 1, .value_dim = 1},
                  {.sinks = {0, kLn3}});
  const ProblemValues values = {.query = {0, 0}, .key = {0}, .value = {1}};
  EXPECT_THAT(ComputeOracleRow(problem, values, {0, 0, 0}).output, ElementsAre(0.5));
  EXPECT_THAT(ComputeOracleRow(problem, values, {0, 1, 0}).output, ElementsAre(Near(0.25)));
}

TEST(OracleOptionsTest, ARowThatSeesNothingButItsSink) {
  const OracleRow row = RowOf(ScoresAre({0, kNan}), {.key_lengths = {0}, .sinks = {2}});
  EXPECT_THAT(row.weights, ElementsAre(0, 0));
  EXPECT_THAT(row.output, ElementsAre(0));
  EXPECT_EQ(row.logsumexp, 2);
}

TEST(OracleOptionsTest, ASinkMakesNoNumberOfWhatIsNone) {
  ExpectNanRow(RowOf(ScoresAre({-kFloatInfinity, -kFloatInfinity}), {.sinks = {2}}));
  ExpectNanRow(RowOf(ScoresAre({0, kFloatInfinity}), {.sinks = {2}}));
  ExpectNanRow(RowOf(ScoresAre({0, kNan}), {.sinks = {2}}));
}

TEST(OracleOptionsTest, Windows) {
  EXPECT_THAT(Visible(kWide, {.window_left = 1, .window_right = 0}),
              ElementsAre(ElementsAre(1, 0, 0, 0, 0), ElementsAre(1, 1, 0, 0, 0), ElementsAre(0, 1, 1, 0, 0)));
  EXPECT_THAT(Visible(kWide, {.window_left = 0}),
              ElementsAre(ElementsAre(1, 1, 1, 1, 1), ElementsAre(0, 1, 1, 1, 1), ElementsAre(0, 0, 1, 1, 1)));
  EXPECT_THAT(Visible(kWide, {.window_right = 1}),
              ElementsAre(ElementsAre(1, 1, 0, 0, 0), ElementsAre(1, 1, 1, 0, 0), ElementsAre(1, 1, 1, 1, 0)));
  EXPECT_THAT(Visible(kWide, {.window_left = kLargestOffset, .window_right = kLargestOffset}),
              Each(ElementsAre(1, 1, 1, 1, 1)));
}

// The corner puts the queries at positions 2, 3 and 4.
TEST(OracleOptionsTest, WindowsMoveWithTheCorner) {
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kBottomRight, .window_left = 1, .window_right = 5}),
              ElementsAre(ElementsAre(0, 1, 1, 0, 0), ElementsAre(0, 0, 1, 1, 0), ElementsAre(0, 0, 0, 1, 1)));
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kBottomRight, .window_left = 0, .key_lengths = {4}}),
              ElementsAre(ElementsAre(0, 1, 0, 0, 0), ElementsAre(0, 0, 1, 0, 0), ElementsAre(0, 0, 0, 1, 0)));
}

TEST(OracleOptionsTest, QueryOffsets) {
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kTopLeft, .query_offset = {-1}}),
              ElementsAre(ElementsAre(0, 0, 0, 0, 0), ElementsAre(1, 0, 0, 0, 0), ElementsAre(1, 1, 0, 0, 0)));
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kBottomRight, .query_offset = {1}}),  // instead of 2
              ElementsAre(ElementsAre(1, 1, 0, 0, 0), ElementsAre(1, 1, 1, 0, 0), ElementsAre(1, 1, 1, 1, 0)));
  EXPECT_THAT(Visible(kWide, {.query_offset = {-1}}), Each(ElementsAre(1, 1, 1, 1, 1)));  // masks nothing by itself
  EXPECT_THAT(Visible(kWide, {.query_offset = {2}, .window_right = 0}),
              ElementsAre(ElementsAre(1, 1, 1, 0, 0), ElementsAre(1, 1, 1, 1, 0), ElementsAre(1, 1, 1, 1, 1)));
  AttentionShape two = kWide;
  two.batch = 2;
  EXPECT_THAT(Visible(two, {.causal = CausalAlignment::kTopLeft, .query_offset = {4, 0}}, 1),
              ElementsAre(ElementsAre(1, 0, 0, 0, 0), ElementsAre(1, 1, 0, 0, 0), ElementsAre(1, 1, 1, 0, 0)));
}

TEST(OracleOptionsTest, PositionsBeyondInt64DoNotWrap) {
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kTopLeft, .query_offset = {kLargestOffset}}),
              Each(ElementsAre(1, 1, 1, 1, 1)));
  EXPECT_THAT(Visible(kWide, {.causal = CausalAlignment::kTopLeft, .query_offset = {kSmallestOffset}}),
              Each(ElementsAre(0, 0, 0, 0, 0)));
  EXPECT_THAT(Visible(kWide, {.query_offset = {kSmallestOffset}, .window_left = 3}), Each(ElementsAre(1, 1, 1, 1, 1)));
  EXPECT_THAT(Visible(kWide, {.query_offset = {kLargestOffset}, .window_left = 3}), Each(ElementsAre(0, 0, 0, 0, 0)));
  // Query i stands at 2^63 - 1 + i and sees 2^63 - 1 back: key i and later ones.
  EXPECT_THAT(Visible(kWide, {.query_offset = {kLargestOffset}, .window_left = kLargestOffset}),
              ElementsAre(ElementsAre(1, 1, 1, 1, 1), ElementsAre(0, 1, 1, 1, 1), ElementsAre(0, 0, 1, 1, 1)));
}

TEST(OracleOptionsTest, AllMasksApplyTogether) {
  AttentionOptions options = {.causal = CausalAlignment::kTopLeft, .query_offset = {2}, .window_left = 3};
  options.key_lengths = {4};
  options.mask = BroadcastTensor{.shape = {1, 5}};
  options.bias = BroadcastTensor{.shape = {3, 1}};
  ProblemValues values;
  values.mask = {1, 0, 1, 1, 1};
  values.bias = {0, 0, -kFloatInfinity};
  const AttentionProblem problem = MakeProblem(kWide, options);
  EXPECT_THAT(VisibleKeys(problem, values, {0, 0, 0}), ElementsAre(1, 0, 1, 0, 0));
  EXPECT_THAT(VisibleKeys(problem, values, {0, 0, 1}), ElementsAre(1, 0, 1, 1, 0));
  EXPECT_THAT(VisibleKeys(problem, values, {0, 0, 2}), ElementsAre(0, 0, 0, 0, 0));
}

// Two sequences, of 2 queries and 1 key and of 1 query and 3 keys.
class OracleSequencesTest : public ::testing::Test {
 protected:
  static AttentionProblem Sequences(AttentionOptions options) {
    options.layout = Layout::kTHD;
    options.query_starts = {0, 2, 3};
    options.key_starts = {0, 1, 4};
    return MakeProblem({.batch = 2,
                        .query_heads = 2,
                        .kv_heads = 1,
                        .query_length = 3,
                        .key_length = 4,
                        .head_dim = 1,
                        .value_dim = 1},
                       options);
  }
};

TEST_F(OracleSequencesTest, NeverSeeEachOther) {
  const AttentionProblem problem = Sequences({.scale = 1.0F});
  ProblemValues values;
  values.query = {1, 2, 3, 10, 20, 30};
  values.key = {kNan, 0, kLn2 / 3, kLn3 / 3};
  values.value = {kNan, 1, 10, 100};
  const OracleRow row = ComputeOracleRow(problem, values, {1, 0, 0});  // query 3
  EXPECT_THAT(row.weights, ElementsAre(Near(1 / 6.0), Near(2 / 6.0), Near(3 / 6.0)));
  EXPECT_THAT(row.output, ElementsAre(DoubleNear(321 / 6.0, 1e-5)));
  values.key = {1, kNan, kNan, kNan};
  values.value = {7, kNan, kNan, kNan};
  EXPECT_THAT(ComputeOracleRow(problem, values, {0, 1, 1}).scaled, ElementsAre(20));
  EXPECT_THAT(ComputeOracleRow(problem, values, {0, 1, 1}).output, ElementsAre(7));
}

TEST_F(OracleSequencesTest, HaveCornersAndPositionsOfTheirOwn) {
  const AttentionProblem problem = Sequences({.causal = CausalAlignment::kBottomRight, .alibi_slopes = {1, 1}});
  EXPECT_THAT(VisibleKeys(problem, {}, {0, 0, 0}), ElementsAre(0));
  EXPECT_THAT(VisibleKeys(problem, {}, {0, 0, 1}), ElementsAre(1));
  EXPECT_THAT(VisibleKeys(problem, {}, {1, 0, 0}), ElementsAre(1, 1, 1));
  const ProblemValues values = {.query = {0, 0, 0, 0, 0, 0}, .key = {0, 0, 0, 0}, .value = {0, 0, 0, 0}};
  EXPECT_THAT(ComputeOracleRow(problem, values, {1, 0, 0}).masked, ElementsAre(-2, -1, 0));
  EXPECT_THAT(VisibleKeys(Sequences({.window_left = 0, .window_right = 1}), {}, {1, 0, 0}), ElementsAre(1, 1, 0));
}

TEST_F(OracleSequencesTest, LieOneAfterTheOtherWithinAHead) {
  const AttentionProblem problem = Sequences({});
  EXPECT_EQ(QueryRows(problem, 0), 2);
  EXPECT_EQ(KeyRows(problem, 1), 3);
  EXPECT_EQ(QueryIndex(problem, 1, 1, 0), 5);
  EXPECT_EQ(KeyIndex(problem, 1, 0, 2), 3);
  EXPECT_EQ(RowIndex(problem, 0, 1, 1), 4);
  EXPECT_THAT(AllRows(problem), ElementsAre(RowPosition{0, 0, 0}, RowPosition{0, 0, 1}, RowPosition{0, 1, 0},
                                            RowPosition{0, 1, 1}, RowPosition{1, 0, 0}, RowPosition{1, 1, 0}));
}

TEST(OracleOptionsTest, ScoresByStage) {
  OracleRow row;
  row.scaled = {1};
  row.softcapped = {2};
  row.masked = {3};
  EXPECT_THAT(row.Scores(ScoreStage::kScaled), ElementsAre(1));
  EXPECT_THAT(row.Scores(ScoreStage::kSoftcapped), ElementsAre(2));
  EXPECT_THAT(row.Scores(ScoreStage::kMasked), ElementsAre(3));
}

// The largest f32 is 2^128 - 2^104; half a step beyond, sums round to infinity.
TEST(OracleOptionsTest, OverflowBeginsWhereRoundingReachesInfinity) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(OverflowToInfinity(kLargest + 0x1p102), kLargest + 0x1p102);
  EXPECT_EQ(OverflowToInfinity(kLargest + 0x1p103), kInfinity);
  EXPECT_EQ(OverflowToInfinity(-kLargest - 0x1p103), -kInfinity);
  EXPECT_THAT(OverflowToInfinity(kNan), IsNan());
}

}  // namespace
}  // namespace attend::testing
