// Numbers that are not numbers, and numbers at the edges, under every mask and option: exact rules, each a test.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"
#include "tests/conformance/problem_change.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::BroadcastTensor;
using core::CausalAlignment;
using core::ElementType;
using core::ScoreStage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kNotNumbers[] = {kNan, kInfinity, -kInfinity};
const core::ResultSelection kMaskedResults = {.weights = true, .scores = ScoreStage::kMasked, .logsumexp = true};

class MaskedNumbersTest : public ConformanceOfType {
 protected:
  static void ExpectRightHere(const ProblemInstance& instance) {
    EXPECT_EQ(CheckResults(instance.problem, instance.values, ComputeHere(instance)), absl::OkStatus());
  }
  static ProblemResults ComputeHere(const ProblemInstance& instance) {
    auto results = runner().RunHere(instance.problem, instance.values);
    EXPECT_TRUE(results.ok()) << results.status() << " of " << Describe(instance.problem);
    return results.ok() ? *std::move(results) : ProblemResults(instance.problem);
  }
  // `poisoned` is `clean` but for one number. Its results are right, and rows that do not see the number, as `sees`
  // says, have the bits that they have without it.
  static void ExpectOnlySeen(const ProblemInstance& poisoned, const ProblemResults& clean,
                             const std::function<bool(const RowPosition&)>& sees) {
    const auto& [problem, values] = poisoned;
    const ProblemResults results = ComputeHere(poisoned);
    ASSERT_EQ(CheckResults(problem, values, results, int64_t{1} << 18), absl::OkStatus());
    for (const RowPosition& at : AllRows(problem)) {
      if (sees(at)) continue;
      ASSERT_TRUE(SameRow(problem, clean, results, at)) << Describe(problem) << ": row [" << at.batch << "," << at.head
                                                        << "," << at.query << "], seed " << values.seed;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(ElementTypes, MaskedNumbersTest, ::testing::ValuesIn(kElementTypes), TypeName);

// Options number `n` of a few that hide keys in different ways.
AttentionOptions MaskingOptions(const AttentionShape& shape, int n) {
  AttentionOptions options;
  Draw draw(n);
  if (n % 3 == 1) options.causal = CausalAlignment::kBottomRight;
  if (n % 3 == 2) options.window_left = shape.key_length / 3;
  if (n % 2 == 1) options.mask = BroadcastTensor{.shape = DrawBroadcastShape(shape, draw)};
  if (n % 4 >= 2) {
    options.bias = BroadcastTensor{.shape = DrawBroadcastShape(shape, draw), .type = kElementTypes[n % 3]};
  }
  if (n % 5 == 4) options.softcap = 3;
  if (n % 7 == 3) options.sinks.assign(shape.query_heads, 0.5F);
  if (n % 7 == 5) options.alibi_slopes.assign(shape.query_heads, 0.125F);
  if (n % 5 == 1) options.key_lengths.assign(shape.batch, shape.key_length - 1);
  return options;
}

ProblemInstance MakeInstance(const AttentionProblem& problem, uint64_t seed) {
  return {problem, Generate(problem, seed, {.bias = OneIn(4, -kInfinity, Normal()), .mask = OneIn(3, 0, Constant(1))})};
}

// What a number in the place of one element reaches, for every element of query, key and value.
void ForEveryPlace(const ProblemInstance& clean,
                   const std::function<void(std::vector<float> ProblemValues::*, int64_t index,
                                            const std::function<bool(const RowPosition&)>& sees)>& visit) {
  const AttentionProblem& problem = clean.problem;
  const AttentionShape& s = problem.shape();
  for (const RowPosition& row : AllRows(problem)) {
    for (int64_t d = 0; d < s.head_dim; ++d) {
      visit(&ProblemValues::query, QueryIndex(problem, row.batch, row.head, row.query) + d,
            [row](const RowPosition& at) { return at == row; });
    }
  }
  for (int64_t n = 0; n < s.batch * s.kv_heads * s.key_length; ++n) {
    const int64_t j = n % s.key_length;
    const int64_t kv_head = n / s.key_length % s.kv_heads;
    const int64_t b = n / s.key_length / s.kv_heads;
    const auto sees = [&, b, kv_head, j](const RowPosition& at) {
      return at.batch == b && KvHead(s, at.head) == kv_head && VisibleKeys(problem, clean.values, at)[j];
    };
    for (int64_t d = 0; d < s.head_dim; ++d) visit(&ProblemValues::key, KeyIndex(problem, b, kv_head, j) + d, sees);
    for (int64_t d = 0; d < s.value_dim; ++d)
      visit(&ProblemValues::value, ValueIndex(problem, b, kv_head, j) + d, sees);
  }
}

TEST_P(MaskedNumbersTest, EveryPlaceOfASmallProblem) {
  const AttentionShape shape = {
      .batch = 2, .query_heads = 2, .kv_heads = 1, .query_length = 3, .key_length = 4, .head_dim = 2, .value_dim = 2};
  for (int n = 0; n < 60 && !HasFailure(); ++n) {
    const auto problem = MakeProblem(shape, GetParam(), MaskingOptions(shape, n), kMaskedResults);
    const ProblemInstance clean = MakeInstance(problem, n);
    const ProblemResults want = ComputeHere(clean);
    ForEveryPlace(clean, [&](std::vector<float> ProblemValues::*tensor, int64_t index, const auto& sees) {
      for (float number : kNotNumbers) {
        ProblemInstance poisoned = clean;
        (poisoned.values.*tensor)[index] = number;
        ExpectOnlySeen(poisoned, want, sees);
      }
    });
  }
}

// Whether element `index` of the bias is that of some key of a row.
bool ReadsBias(const AttentionProblem& problem, const RowPosition& at, int64_t index) {
  for (int64_t j = 0; j < problem.shape().key_length; ++j) {
    if (BroadcastIndex(*problem.options().bias, at, j) == index) return true;
  }
  return false;
}

// A bias of -inf excludes; NaN and +inf make NaN of the rows whose key is there otherwise.
TEST_P(MaskedNumbersTest, EveryPlaceOfABias) {
  const AttentionShape shape = {
      .batch = 2, .query_heads = 2, .kv_heads = 2, .query_length = 3, .key_length = 4, .head_dim = 2, .value_dim = 1};
  for (int n = 0; n < 60 && !HasFailure(); ++n) {
    AttentionOptions options = MaskingOptions(shape, n);
    Draw draw(1000 + n);
    options.bias = BroadcastTensor{.shape = DrawBroadcastShape(shape, draw), .type = kElementTypes[n % 3]};
    const ProblemInstance clean = MakeInstance(MakeProblem(shape, GetParam(), options, kMaskedResults), n);
    const ProblemResults want = ComputeHere(clean);
    for (size_t index = 0; index < clean.values.bias.size(); ++index) {
      const auto reads = [&](const RowPosition& at) {
        return ReadsBias(clean.problem, at, static_cast<int64_t>(index));
      };
      for (float number : kNotNumbers) {
        ProblemInstance poisoned = clean;
        poisoned.values.bias[index] = number;
        ExpectOnlySeen(poisoned, want, reads);
      }
    }
  }
}

// Tiles that masks cut, over several granules of keys and a border of key blocks: keys and values that are not numbers
// at places beside the borders.
TEST_P(MaskedNumbersTest, PlacesInCutTiles) {
  const AttentionShape shape = {
      .query_heads = 2, .kv_heads = 1, .query_length = 70, .key_length = 600, .head_dim = 8, .value_dim = 20};
  for (int n = 1; n < 12 && !HasFailure(); ++n) {
    const auto problem = MakeProblem(shape, GetParam(), MaskingOptions(shape, n), kMaskedResults);
    const ProblemInstance clean = MakeInstance(problem, n);
    const ProblemResults want = ComputeHere(clean);
    for (int64_t j : {0, 1, 63, 64, 127, 400, 511, 512, 598, 599}) {
      const auto sees = [&](const RowPosition& at) -> bool { return VisibleKeys(problem, clean.values, at)[j]; };
      const float number = kNotNumbers[j % 3];
      ProblemInstance poisoned = clean;
      poisoned.values.key[KeyIndex(problem, 0, 0, j) + 5] = number;
      ExpectOnlySeen(poisoned, want, sees);
      poisoned = clean;
      poisoned.values.value[ValueIndex(problem, 0, 0, j) + 17] = number;
      ExpectOnlySeen(poisoned, want, sees);
    }
  }
}

constexpr AttentionShape kShape = {
    .batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 33, .key_length = 150, .head_dim = 16, .value_dim = 8};

// NaN in every key, and its value, that query 0 of head 0 does not see.
void FillHidden(const AttentionProblem& problem, int64_t b, ProblemValues* values) {
  const AttentionShape& s = problem.shape();
  const std::vector<bool> visible = VisibleKeys(problem, *values, {b, 0, 0});
  for (int64_t n = 0; n < s.kv_heads * s.key_length; ++n) {
    const int64_t j = n % s.key_length;
    if (visible[j]) continue;
    std::fill_n(values->key.begin() + KeyIndex(problem, b, n / s.key_length, j), s.head_dim, kNan);
    std::fill_n(values->value.begin() + ValueIndex(problem, b, n / s.key_length, j), s.value_dim, kNan);
  }
}

// Everything that a mask hides may be NaN, all of it at once, whichever way it is hidden.
TEST_P(MaskedNumbersTest, AllThatIsHiddenMayBeNan) {
  for (bool by_bias : {false, true}) {
    AttentionOptions options;
    const BroadcastTensor columns = {.shape = {2, 1, 1, 150}};
    (by_bias ? options.bias : options.mask) = columns;
    const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
    ProblemValues values = Generate(problem, 1, {.bias = OneIn(2, -kInfinity, Normal())});
    const ProblemResults want = Compute(problem, values);
    for (int64_t b = 0; b < 2; ++b) FillHidden(problem, b, &values);
    EXPECT_EQ(Compute(problem, values).FirstDifference(want), "") << Describe(problem);
  }
}

// Rows and whole heads that see nothing, by mask and by bias: the same bits both ways, 0 and -inf where it is empty.
TEST_P(MaskedNumbersTest, RowsAndHeadsMasked) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{33, 1}, {4, 1, 1}, {2, 4, 33, 1}, {2, 1, 1, 1}, {1, 150}, {4, 33, 150}}) {
    AttentionOptions by_mask;
    by_mask.mask = BroadcastTensor{.shape = shape};
    const auto masked = MakeProblem(kShape, GetParam(), by_mask, kMaskedResults);
    ProblemValues values = Generate(masked, 2, {.mask = OneIn(2, 0, Constant(1))});
    const ProblemResults want = Compute(masked, values);
    EXPECT_EQ(CheckResults(masked, values, want), absl::OkStatus());
    AttentionOptions by_bias;
    by_bias.bias = BroadcastTensor{.shape = shape};
    const auto biased = MakeProblem(kShape, GetParam(), by_bias, kMaskedResults);
    for (uint8_t seen : values.mask) values.bias.push_back(seen != 0 ? 0 : -kInfinity);
    EXPECT_EQ(Compute(biased, values).FirstDifference(want), "") << Describe(biased);
  }
}

// Weights of all visible keys are 1/n where all scores are equal, whatever they are.
TEST_P(MaskedNumbersTest, EqualScoresWeighAlike) {
  for (float score : {0.0F, 1.0F, -65504.0F, 3.0e38F, -3.4e38F, kLargest, -kLargest}) {
    AttentionOptions options = {.scale = 0.0F, .causal = CausalAlignment::kBottomRight};
    options.mask = BroadcastTensor{.shape = {1, 150}};
    options.bias = BroadcastTensor{.shape = {1, 1}};
    const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
    const ProblemValues values = Generate(problem, 3, {.bias = Constant(score)});
    const ProblemResults results = Compute(problem, values);
    EXPECT_EQ(CheckResults(problem, values, results), absl::OkStatus());
    const std::vector<bool> visible = VisibleKeys(problem, values, {1, 3, 20});
    const auto count = static_cast<double>(std::count(visible.begin(), visible.end(), true));
    for (int64_t j = 0; j < kShape.key_length; ++j) {
      if (!visible[j]) continue;
      const int64_t index = *WeightsIndex(problem, {1, 3, 20}) + j;
      EXPECT_NEAR(results.weights[index], 1 / count, 1e-7) << score;
      EXPECT_EQ(results.scores[index], score);
    }
  }
}

// Rows of nothing but finfo.min, as model code masks, beside rows with some of it and rows without: a number like any
// other.
TEST_P(MaskedNumbersTest, LowestBiases) {
  for (const auto& [type, lowest] : {std::pair(ElementType::kFloat32, -kLargest),
                                     {ElementType::kBFloat16, -0x1.FEp127F},
                                     {ElementType::kFloat16, -65504.0F}}) {
    AttentionOptions options;
    options.bias = BroadcastTensor{.shape = {33, 150}, .type = type};
    for (bool sinks : {false, true}) {
      if (sinks) options.sinks.assign(kShape.query_heads, -1.0F);
      const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
      ProblemValues values = Generate(problem, 4, {.bias = OneIn(2, lowest, Constant(0))});
      std::fill_n(values.bias.begin() + 7 * kShape.key_length, 5 * kShape.key_length, lowest);
      ExpectRight(problem, values);
    }
  }
}

// Beside a bias of the lowest number, scores that carry the sum beyond f32 are -inf by arithmetic; a row of them is
// NaN.
TEST_P(MaskedNumbersTest, SumsBeyondFloat32AreInfinite) {
  AttentionOptions options = {.scale = 0x1p100F};
  options.bias = BroadcastTensor{.shape = {33, 1}};
  const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
  ProblemValues values = Generate(problem, 5, {.query_and_key = Integers(1), .bias = Constant(-kLargest)});
  ExpectRight(problem, values);
  // All scores of -2^104: every sum is beyond.
  std::fill(values.query.begin(), values.query.end(), 1.0F);
  std::fill(values.key.begin(), values.key.end(), -1.0F);
  ExpectRight(problem, values);
  EXPECT_TRUE(std::isnan(Compute(problem, values).logsumexp[0]));
  values.bias.assign(33, kLargest);
  std::fill(values.key.begin(), values.key.end(), 1.0F);
  ExpectRight(problem, values);
  EXPECT_TRUE(std::isnan(Compute(problem, values).logsumexp[0]));
}

// With a sink, a row without a key is the sink's, and one without a number is NaN.
TEST_P(MaskedNumbersTest, SinksBesideNothingAndBesideNoNumber) {
  for (float sink : {-kInfinity, -kLargest, -1e4F, 0.0F, 88.0F, 1e4F, kLargest}) {
    AttentionOptions options;
    options.sinks.assign(kShape.query_heads, sink);
    options.mask = BroadcastTensor{.shape = {33, 1}};
    const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
    ProblemValues values = Generate(problem, 6, {.mask = OneIn(2, 0, Constant(1))});
    ExpectRight(problem, values);
    for (int64_t i = 0; i < kShape.query_length; ++i) values.query[QueryIndex(problem, 0, 1, i)] = kNotNumbers[i % 3];
    ExpectRight(problem, values);
    for (int64_t j = 0; j < kShape.key_length; ++j) {
      std::fill_n(values.key.begin() + KeyIndex(problem, 1, 0, j), kShape.head_dim, j % 2 == 0 ? 1.0F : 2.0F);
    }
    for (int64_t i = 0; i < kShape.query_length; ++i) values.query[QueryIndex(problem, 1, 0, i)] = -kInfinity;
    ExpectRight(problem, values);  // all scores -inf
  }
}

// Caps from the smallest number to the largest, on scores from 0 to infinity. Of scores so large that a rounding of
// them turns all weights, the scores alone.
TEST_P(MaskedNumbersTest, SoftcapsOfEverySize) {
  for (float softcap : {0x1p-149F, 0x1p-126F, 1e-30F, 1e-3F, 1.0F, 50.0F, 1e30F, kLargest}) {
    const bool large = softcap > 1e4F;
    for (float scale : {1e-30F, 0.25F, 1e3F, 1e30F, 3e38F}) {
      const auto problem = MakeProblem(
          kShape, GetParam(), {.scale = scale, .softcap = softcap},
          {.weights = !large, .scores = ScoreStage::kSoftcapped, .logsumexp = !large, .omit_output = large});
      ExpectRight(problem, Generate(problem, 7, {.query_and_key = Integers(1)}));
    }
  }
}

// A score of +inf or -inf is a number again once it is capped.
TEST_P(MaskedNumbersTest, SoftcapsOfInfiniteScores) {
  const auto problem = MakeProblem(kShape, GetParam(), {.softcap = 5}, kMaskedResults);
  ProblemValues values = Generate(problem, 8, {.query_and_key = Constant(1)});
  for (int64_t j : {0, 70, 149}) values.key[KeyIndex(problem, 0, 1, j)] = kInfinity;
  for (int64_t j : {3, 64}) values.key[KeyIndex(problem, 0, 1, j)] = -kInfinity;
  ExpectRight(problem, values);
  EXPECT_TRUE(std::isfinite(Compute(problem, values).logsumexp[RowIndex(problem, 0, 2, 0)]));
}

TEST_P(MaskedNumbersTest, SlopesAndOffsetsOfEverySize) {
  constexpr int64_t kOffsets[] = {
      0, -5, 1 << 20, -(int64_t{1} << 40), std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int64_t offset : kOffsets) {
    for (float slope : {0.0F, 0x1p-149F, 0.5F, -0.5F, 1e10F, 1e37F, -1e37F, kLargest, -kLargest}) {
      AttentionOptions options = {.query_offset = {offset, 0}};
      options.alibi_slopes = {slope, 0, 1, slope};
      const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
      ExpectRight(problem, Generate(problem, 9));
    }
  }
}

// Subnormal biases, and values, sinks and slopes beside them: small, but not nothing, and never NaN.
TEST_P(MaskedNumbersTest, Subnormals) {
  for (ElementType bias_type : kElementTypes) {
    AttentionOptions options;
    options.bias = BroadcastTensor{.shape = {33, 150}, .type = bias_type};
    options.sinks.assign(kShape.query_heads, 0x1p-140F);
    const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
    const Fills fills = {
        .query_and_key = Specials(GetParam()), .value = Specials(GetParam()), .bias = Specials(bias_type)};
    ExpectRight(problem, Generate(problem, 10, fills));
  }
}

// A mask may be any byte but 0.
TEST_P(MaskedNumbersTest, EveryByteButZeroIsTrue) {
  AttentionOptions options;
  options.mask = BroadcastTensor{.shape = {33, 150}};
  const auto problem = MakeProblem(kShape, GetParam(), options, kMaskedResults);
  ProblemValues values = Generate(problem, 11);
  const ProblemResults want = Compute(problem, values);
  Draw draw(11);
  for (uint8_t& element : values.mask) element *= static_cast<uint8_t>(draw.Between(1, 255));
  EXPECT_EQ(Compute(problem, values).FirstDifference(want), "");
}

}  // namespace
}  // namespace attend::testing
