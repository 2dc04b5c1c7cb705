// Values near the largest number of their type: their mean is no larger than they are, whatever the sums on the way.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionShape;
using core::BroadcastTensor;
using core::CausalAlignment;
using core::ElementType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float Largest(ElementType type) {
  if (type == ElementType::kFloat16) return 65504.0F;
  return type == ElementType::kBFloat16 ? 0x1.FEp127F : std::numeric_limits<float>::max();
}

class HugeValuesTest : public ConformanceOfType {
 protected:
  // Values of up to half the largest number, so that the sums of the yardstick, of weights that add up to 1 with errors
  // of bf16, stay finite.
  static void Enlarge(std::vector<float>* values) {
    for (float& v : *values) v = RoundTo(GetParam(), std::clamp(v, -4.0F, 4.0F) / 4 * (Largest(GetParam()) / 2));
  }
  static void FillOutput(ElementType type, float value, ProblemValues* values) {
    std::fill(values->value.begin(), values->value.end(), RoundTo(type, value));
  }
};
INSTANTIATE_TEST_SUITE_P(ElementTypes, HugeValuesTest, ::testing::ValuesIn(kElementTypes), TypeName);

constexpr AttentionShape kShape = {.batch = 2,
                                   .query_heads = 4,
                                   .kv_heads = 2,
                                   .query_length = 33,
                                   .key_length = 150,
                                   .head_dim = 16,
                                   .value_dim = 24};

TEST_P(HugeValuesTest, OfEitherSign) {
  for (int64_t key_length : {1, 2, 65, 256, 300}) {
    for (CausalAlignment causal : {CausalAlignment::kNone, CausalAlignment::kBottomRight}) {
      AttentionShape shape = kShape;
      shape.key_length = key_length;
      const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
      ProblemValues values = Generate(problem, static_cast<uint64_t>(key_length));
      Enlarge(&values.value);
      ExpectRight(problem, values);
    }
  }
}

// Weights that add up to 1 but for rounding must not carry the mean beyond the largest number.
TEST_P(HugeValuesTest, TheMeanOfEqualValuesIsFinite) {
  const double largest = Largest(GetParam());
  for (int64_t key_length : {1, 2, 3, 100, 600}) {
    for (float sign : {1.0F, -1.0F}) {
      AttentionShape shape = kShape;
      shape.key_length = key_length;
      const auto problem = MakeProblem(shape, GetParam());
      ProblemValues values = Generate(problem, 5);
      FillOutput(GetParam(), sign * Largest(GetParam()), &values);
      const ProblemResults results = Compute(problem, values);
      const double unit = GetParam() == ElementType::kFloat32 ? 1e-5 : 0x1p-7;
      for (float output : results.OutputValues(problem)) {
        ASSERT_TRUE(std::isfinite(output)) << Describe(problem);
        ASSERT_NEAR(output / largest, sign, unit) << Describe(problem);
      }
    }
  }
}

// A later key block raises the maximum, so that infinite sums would be rescaled, to NaN where the factor is 0.
TEST_P(HugeValuesTest, WhereTheMaximumGrows) {
  AttentionShape shape = kShape;
  shape.key_length = 300;
  for (float step : {1.0F, 20.0F, 200.0F}) {
    AttentionOptions options = {.bias = BroadcastTensor{.shape = {1, shape.key_length}}};
    const auto problem = MakeProblem(shape, GetParam(), options);
    ProblemValues values = Generate(problem, 6);
    for (int64_t j = 0; j < shape.key_length; ++j) {
      const int64_t part = j / 100;
      values.bias[j] = static_cast<float>(part) * step;
    }
    Enlarge(&values.value);
    ExpectRight(problem, values);
  }
}

// A sink takes all of the weight, or nearly all of it.
TEST_P(HugeValuesTest, BesideSinks) {
  for (float sink : {-200.0F, 0.0F, 20.0F, 200.0F, 3e38F}) {
    AttentionOptions options;
    options.sinks.assign(kShape.query_heads, sink);
    const auto problem = MakeProblem(kShape, GetParam(), options);
    ProblemValues values = Generate(problem, 7);
    Enlarge(&values.value);
    ExpectRight(problem, values);
  }
}

// Sums that overflow change nothing but themselves: the other columns, weights and logsumexp keep their bits.
TEST_P(HugeValuesTest, OtherColumnsKeepTheirBits) {
  const auto problem = MakeProblem(kShape, GetParam(), {.causal = CausalAlignment::kBottomRight});
  const ProblemValues plain = Generate(problem, 8);
  ProblemValues values = plain;
  for (size_t x = 5; x < values.value.size(); x += kShape.value_dim) values.value[x] = Largest(GetParam());
  const ProblemResults want = Compute(problem, plain);
  const ProblemResults results = Compute(problem, values);
  EXPECT_EQ(results.weights, want.weights);
  EXPECT_EQ(results.logsumexp, want.logsumexp);
  const std::vector<float> wanted = want.OutputValues(problem);
  const std::vector<float> output = results.OutputValues(problem);
  for (size_t x = 0; x < output.size(); ++x) {
    if (x % kShape.value_dim != 5) {
      ASSERT_EQ(output[x], wanted[x]) << "element " << x;
    }
  }
}

// An infinite value of the other sign wins over sums that overflow; NaN stays NaN; what no row sees is nothing.
TEST_P(HugeValuesTest, BesideNumbersThatAreNotFinite) {
  for (float number : {kInfinity, -kInfinity, kNan}) {
    for (int64_t j : {0, 70, 149}) {
      const auto problem = MakeProblem(kShape, GetParam(), {.causal = CausalAlignment::kBottomRight});
      ProblemValues values = Generate(problem, 9);
      FillOutput(GetParam(), number == kInfinity ? -Largest(GetParam()) / 2 : Largest(GetParam()) / 2, &values);
      for (int64_t b = 0; b < kShape.batch; ++b) values.value[ValueIndex(problem, b, 1, j) + 3] = number;
      ExpectRight(problem, values);
    }
  }
}

TEST_P(HugeValuesTest, WithEveryOtherResult) {
  for (bool average : {false, true}) {
    core::ResultSelection results = {.weights = true, .scores = core::ScoreStage::kMasked, .logsumexp = true};
    results.average_weights_over_heads = average;
    AttentionOptions options = {.softcap = 5.0F, .causal = CausalAlignment::kBottomRight};
    options.mask = BroadcastTensor{.shape = {33, 150}};
    const auto problem = MakeProblem(kShape, GetParam(), options, results);
    ProblemValues values = Generate(problem, 10);
    Enlarge(&values.value);
    ExpectRight(problem, values);
  }
}

}  // namespace
}  // namespace attend::testing
