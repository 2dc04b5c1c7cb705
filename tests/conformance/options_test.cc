// What every option does, and numbers at the edges of what is finite.
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;

class OptionsTest : public ConformanceOfType {};
INSTANTIATE_TEST_SUITE_P(ElementTypes, OptionsTest, ::testing::ValuesIn(kElementTypes), TypeName);

constexpr AttentionShape kShape = {
    .batch = 3, .query_heads = 4, .kv_heads = 2, .query_length = 70, .key_length = 90, .head_dim = 40, .value_dim = 24};

TEST_P(OptionsTest, KeyLengths) {
  uint64_t seed = 100;
  for (const std::vector<int64_t>& key_lengths :
       {std::vector<int64_t>{0, 0, 0}, {90, 90, 90}, {0, 90, 1}, {64, 63, 65}, {1, 2, 89}, {69, 70, 71}}) {
    for (CausalAlignment causal : kCausalAlignments) {
      const auto problem = MakeProblem(kShape, GetParam(), {.causal = causal, .key_lengths = key_lengths});
      ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
    }
  }
}

TEST_P(OptionsTest, KeyLengthsOverSeveralKeyBlocks) {
  AttentionShape shape = kShape;
  shape.key_length = 1300;
  uint64_t seed = 200;
  for (const std::vector<int64_t>& key_lengths :
       {std::vector<int64_t>{511, 512, 513}, {1024, 0, 1025}, {1299, 64, 7}}) {
    for (CausalAlignment causal : kCausalAlignments) {
      const auto problem = MakeProblem(shape, GetParam(), {.causal = causal, .key_lengths = key_lengths});
      ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
    }
  }
}

TEST_P(OptionsTest, Scales) {
  uint64_t seed = 300;
  for (std::optional<float> scale : {std::optional<float>(), {1.0F}, {-0.3F}, {0.0F}, {-0.0F}, {1e-30F}, {2.5F}}) {
    const auto problem = MakeProblem(kShape, GetParam(), {.scale = scale});
    ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
  }
}

TEST_P(OptionsTest, AScaleOfZeroWeighsAllVisibleKeysAlike) {
  const auto problem = MakeProblem(kShape, GetParam(), {.scale = 0.0F, .key_lengths = {90, 30, 1}});
  const ProblemResults results = Compute(problem, Generate(problem, 400));
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t keys = problem.KeyCount(b);
    const int64_t row = RowIndex(problem, b, 1, 5);
    for (int64_t j = 0; j < keys; ++j) {
      EXPECT_NEAR(results.weights[row * kShape.key_length + j], 1.0 / static_cast<double>(keys), 1e-7);
    }
    EXPECT_NEAR(results.logsumexp[row], std::log(static_cast<double>(keys)), 1e-6);
  }
}

// Whole numbers: every dot product and score is exact, so that a key that ties for the largest score of 1e38 ties
// exactly. The weights are 1 over how many tie, the logsumexp the score itself.
TEST_P(OptionsTest, ScoresUpToTheLargestFloatAreOrdinary) {
  AttentionShape shape = kShape;
  shape.head_dim = 4;
  for (float scale : {0x1p124F, -0x1p124F, 0x1p100F, 1e37F}) {
    const auto problem = MakeProblem(shape, GetParam(), {.scale = scale, .causal = CausalAlignment::kBottomRight});
    const ProblemValues values = Generate(problem, 500, Integers(1), Normal());
    ExpectRight(problem, values);
  }
}

TEST_P(OptionsTest, LargeScores) {
  uint64_t seed = 600;
  for (double deviation : {8.0, 40.0, 200.0}) {
    const auto problem = MakeProblem(kShape, GetParam());
    ExpectRight(problem, Generate(problem, ++seed, Normal(0, deviation), Normal()));
  }
}

// Scores that grow with every key: the running maximum moves in every block.
TEST_P(OptionsTest, ScoresThatGrowAlongTheKeys) {
  const AttentionShape shape = {.query_length = 20, .key_length = 1500, .head_dim = 8, .value_dim = 8};
  for (float direction : {1.0F, -1.0F}) {
    const auto problem = MakeProblem(shape, GetParam(), {.scale = 0.05F * direction});
    ProblemValues values = Generate(problem, 700);
    for (int64_t j = 0; j < shape.key_length; ++j) {
      values.key[KeyIndex(problem, 0, 0, j)] = RoundTo(GetParam(), static_cast<float>(j));
    }
    for (int64_t i = 0; i < shape.query_length; ++i) values.query[QueryIndex(problem, 0, 0, i)] = 2;
    ExpectRight(problem, values);
  }
}

TEST_P(OptionsTest, SpecialNumbers) {
  uint64_t seed = 800;
  for (CausalAlignment causal : kCausalAlignments) {
    const auto problem = MakeProblem(kShape, GetParam(), {.causal = causal});
    ExpectRight(problem, Generate(problem, ++seed, Specials(GetParam()), Specials(GetParam())));
  }
}

TEST_P(OptionsTest, LargestAndSmallestValues) {
  const auto problem = MakeProblem(kShape, GetParam());
  const float largest = GetParam() == ElementType::kFloat16 ? 65504.0F : 1e36F;
  ExpectRight(problem, Generate(problem, 900, Normal(), Constant(largest)));
  ExpectRight(problem, Generate(problem, 900, Normal(), Normal(0, 1e-4)));
}

using Float16Test = ConformanceTest;

TEST_F(Float16Test, SubnormalsCount) {
  AttentionShape shape = kShape;
  shape.head_dim = 4;
  const auto problem = MakeProblem(shape, ElementType::kFloat16, {.scale = 0x1p30F});
  const Fill subnormals = [fill = Integers(1000)](std::mt19937_64& random) { return fill(random) * 0x1p-24F; };
  ExpectRight(problem, Generate(problem, 950, subnormals, subnormals));
}

// A problem and the same numbers in the other layout: the same bits.
TEST_P(OptionsTest, LayoutsGiveTheSameBits) {
  uint64_t seed = 1000;
  for (const auto& [query_length, key_length] : {std::pair(1, 90), std::pair(70, 90), std::pair(129, 700)}) {
    AttentionShape shape = kShape;
    shape.query_length = query_length;
    shape.key_length = key_length;
    for (const auto& [head_dim, value_dim] : {std::pair(40, 24), std::pair(64, 64), std::pair(3, 1)}) {
      shape.head_dim = head_dim;
      shape.value_dim = value_dim;
      const auto bhnd = MakeProblem(shape, GetParam(), {.causal = CausalAlignment::kBottomRight});
      const auto bnhd =
          MakeProblem(shape, GetParam(), {.layout = Layout::kBNHD, .causal = CausalAlignment::kBottomRight});
      const ProblemValues values = Generate(bhnd, ++seed);
      const ProblemResults first = Compute(bhnd, values);
      const ProblemResults second = Compute(bnhd, values);
      EXPECT_EQ(CheckResults(bnhd, values, second, int64_t{1} << 20), absl::OkStatus());
      EXPECT_EQ(first.OutputValues(bhnd), second.OutputValues(bnhd)) << Describe(bnhd) << ", seed " << seed;
      EXPECT_EQ(first.weights, second.weights) << Describe(bnhd) << ", seed " << seed;
      EXPECT_EQ(first.logsumexp, second.logsumexp) << Describe(bnhd) << ", seed " << seed;
    }
  }
}

// Groups of heads that fill a block of rows exactly, nearly, and more than once.
TEST_P(OptionsTest, WeightsAveragedOverEveryGroup) {
  uint64_t seed = 1200;
  for (int64_t group : {1, 2, 3, 5, 7, 12, 31, 43, 100, 127, 128, 129, 200}) {
    for (int64_t kv_heads : {1, 2}) {
      const AttentionShape shape = {.query_heads = group * kv_heads,
                                    .kv_heads = kv_heads,
                                    .query_length = group < 10 ? 60 : 5,
                                    .key_length = 70,
                                    .head_dim = 24,
                                    .value_dim = 8};
      const auto problem = MakeProblem(shape, GetParam(), {.causal = CausalAlignment::kBottomRight},
                                       {.weights = true, .average_weights_over_heads = true, .logsumexp = true});
      ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
    }
  }
}

// What rows that see nothing get, in every result.
TEST_P(OptionsTest, RowsWithoutKeys) {
  const auto problem =
      MakeProblem(kShape, GetParam(), {.causal = CausalAlignment::kBottomRight, .key_lengths = {0, 20, 70}});
  const ProblemValues values = Generate(problem, 1100);
  const ProblemResults results = Compute(problem, values);
  const std::vector<float> output = results.OutputValues(problem);
  for (const auto& [b, i] : {std::pair(0, 0), std::pair(0, 69), std::pair(1, 49)}) {
    for (int64_t h = 0; h < kShape.query_heads; ++h) {
      EXPECT_EQ(results.logsumexp[RowIndex(problem, b, h, i)], -INFINITY);
      for (int64_t d = 0; d < kShape.value_dim; ++d) EXPECT_EQ(output[OutputIndex(problem, b, h, i) + d], 0);
    }
  }
  EXPECT_TRUE(std::isfinite(results.logsumexp[RowIndex(problem, 1, 0, 50)]));
  EXPECT_TRUE(std::isfinite(results.logsumexp[RowIndex(problem, 2, 0, 0)]));
  EXPECT_EQ(CheckMasks(problem, values, results), absl::OkStatus());
}

}  // namespace
}  // namespace attend::testing
