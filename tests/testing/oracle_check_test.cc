// The check lets through what is right and rejects what is wrong on purpose.
#include "tests/testing/oracle_check.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/generators.h"
#include "tests/testing/tolerance.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 20240607;

// What to do differently from the oracle.
struct Flaw {
  std::function<double(double)> exponential = [](double x) { return std::exp(x); };
  std::function<double(double)> score = [](double s) { return s; };
  std::function<bool(int64_t j, bool visible)> visible = [](int64_t, bool is_visible) { return is_visible; };
};

void StoreElement(ElementType type, double value, int64_t index, std::vector<std::byte>* to) {
  const auto number = static_cast<float>(value);
  const int64_t size = core::ElementBytes(type);
  const uint16_t half = type == ElementType::kBFloat16 ? core::FloatToBFloat16(number) : core::FloatToFloat16(number);
  const void* from = type == ElementType::kFloat32 ? static_cast<const void*>(&number) : &half;
  std::memcpy(to->data() + index * size, from, size);
}

// Attention in double precision with a flaw, rounded to the problem's types at the end.
ProblemResults ComputeWith(const Flaw& flaw, const AttentionProblem& problem, const ProblemValues& values) {
  const AttentionShape& s = problem.shape();
  ProblemResults results(problem);
  for (const RowPosition& at : ChooseRows(problem, 0, std::numeric_limits<int64_t>::max())) {
    OracleRow row = ComputeOracleRow(problem, values, at);
    double maximum = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < s.key_length; ++j) {
      row.visible[j] = flaw.visible(j, row.visible[j]);
      row.masked[j] = flaw.score(row.softcapped[j]);
      if (row.visible[j]) maximum = std::max(maximum, row.masked[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < s.key_length; ++j) {
      row.weights[j] = row.visible[j] ? flaw.exponential(row.masked[j] - maximum) : 0;
      sum += row.weights[j];
    }
    const int64_t index = RowIndex(problem, at.batch, at.head, at.query);
    results.logsumexp[index] = static_cast<float>(sum == 0 ? maximum : maximum + std::log(sum));
    std::vector<double> output(s.value_dim, 0);
    for (int64_t j = 0; j < s.key_length; ++j) {
      const double weight = sum == 0 ? 0 : row.weights[j] / sum;
      results.weights[index * s.key_length + j] = static_cast<float>(weight);
      const int64_t from = ValueIndex(problem, at.batch, KvHead(s, at.head), j);
      for (int64_t d = 0; d < s.value_dim && weight != 0; ++d) output[d] += weight * values.value[from + d];
    }
    for (int64_t d = 0; d < s.value_dim; ++d) {
      StoreElement(problem.type(), output[d], index * s.value_dim + d, &results.output);
    }
  }
  return results;
}

AttentionProblem MakeProblem(ElementType type, const AttentionOptions& options = {}) {
  const AttentionShape shape = {
      .query_heads = 4, .kv_heads = 2, .query_length = 24, .key_length = 40, .head_dim = 32, .value_dim = 16};
  return AttentionProblem::Create(shape, type, options, {.weights = true, .logsumexp = true}).value();
}

absl::Status CheckFlaw(const Flaw& flaw, const AttentionProblem& problem, double deviation = 1) {
  const ProblemValues values = Generate(problem, kSeed, Normal(0, deviation), Normal());
  return CheckResults(problem, values, ComputeWith(flaw, problem, values));
}

// The polynomial of `degree` through 2^x at the Chebyshev points of [-0.5, 0.5], in Newton's form: within a few per
// cent of the best there is. 2^x for other x by its whole part.
std::function<double(double)> PolynomialExponential(int degree) {
  std::vector<double> points(degree + 1);
  std::vector<double> coefficients(degree + 1);
  for (int n = 0; n <= degree; ++n) {
    points[n] = 0.5 * std::cos(std::numbers::pi * (n + 0.5) / (degree + 1));
    coefficients[n] = std::exp2(points[n]);
  }
  for (int order = 1; order <= degree; ++order) {
    for (int n = degree; n >= order; --n) {
      coefficients[n] = (coefficients[n] - coefficients[n - 1]) / (points[n] - points[n - order]);
    }
  }
  return [=](double x) {
    const double exponent = std::nearbyint(x * std::numbers::log2e);
    const double fraction = x * std::numbers::log2e - exponent;
    double value = coefficients[degree];
    for (int n = degree - 1; n >= 0; --n) value = value * (fraction - points[n]) + coefficients[n];
    return std::ldexp(value, static_cast<int>(exponent));
  };
}

class EveryType : public ::testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(ElementTypes, EveryType,
                         ::testing::Values(ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16),
                         [](const auto& param) { return std::string(core::ElementTypeName(param.param)); });

TEST_P(EveryType, TheOracleItselfPasses) {
  for (CausalAlignment causal : {CausalAlignment::kNone, CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    EXPECT_EQ(CheckFlaw({}, MakeProblem(GetParam(), {.causal = causal})), absl::OkStatus());
  }
  EXPECT_EQ(CheckFlaw({}, MakeProblem(GetParam(), {.key_lengths = {0}})), absl::OkStatus());
}

TEST_P(EveryType, ExponentialsOfDegreeFourAndUpPass) {
  for (int degree : {4, 5, 6}) {
    EXPECT_EQ(CheckFlaw({.exponential = PolynomialExponential(degree)}, MakeProblem(GetParam())), absl::OkStatus())
        << degree;
  }
}

TEST_P(EveryType, AMaskOffByOneFails) {
  const AttentionProblem problem = MakeProblem(GetParam(), {.key_lengths = {30}});
  EXPECT_THAT(CheckFlaw({.visible = [](int64_t j, bool) { return j < 31; }}, problem).message(),
              HasSubstr("does not see key 30"));
  EXPECT_THAT(CheckFlaw({.visible = [](int64_t j, bool) { return j < 29; }}, problem).message(),
              HasSubstr("elements of weights are wrong"));
}

TEST_P(EveryType, AScaleAPercentOffFails) {
  EXPECT_FALSE(CheckFlaw({.score = [](double s) { return s * 1.01; }}, MakeProblem(GetParam()), 2).ok());
}

TEST_P(EveryType, ScoresRoundedToBFloat16Fail) {
  const Flaw flaw = {.score = [](double s) { return RoundTo(ElementType::kBFloat16, static_cast<float>(s)); }};
  EXPECT_THAT(CheckFlaw(flaw, MakeProblem(GetParam()), 2.5).message(), HasSubstr("output"));
}

TEST_P(EveryType, TheWrongKvHeadFails) {
  const AttentionProblem problem = MakeProblem(GetParam());
  ProblemValues values = Generate(problem, kSeed);
  ProblemValues swapped = values;
  std::rotate(swapped.key.begin(), swapped.key.begin() + swapped.key.size() / 2, swapped.key.end());
  EXPECT_FALSE(CheckResults(problem, values, ComputeWith({}, problem, swapped)).ok());
}

TEST(CheckResultsTest, AnExponentialOfDegreeThreeFails) {
  const std::string report(
      CheckFlaw({.exponential = PolynomialExponential(3)}, MakeProblem(ElementType::kFloat32), 1.5).message());
  EXPECT_THAT(report, HasSubstr("elements of weights are wrong"));
  EXPECT_THAT(report, HasSubstr("elements of logsumexp are wrong"));
}

TEST(CheckResultsTest, AFloat16OutputCutToTheBitsOfABFloat16Fails) {
  const AttentionProblem problem = MakeProblem(ElementType::kFloat16);
  const ProblemValues values = Generate(problem, kSeed);
  ProblemResults results = ComputeWith({}, problem, values);
  for (size_t n = 0; n < results.output.size(); n += 2) results.output[n] &= std::byte{0xF8};  // bf16's 8 bits
  EXPECT_THAT(CheckResults(problem, values, results).message(), HasSubstr("elements of output are wrong"));
}

// Everything about the worst element is in the report.
TEST(CheckResultsTest, TheReportNamesTheWorstElement) {
  const AttentionProblem problem = MakeProblem(ElementType::kFloat32);
  const ProblemValues values = Generate(problem, kSeed);
  ProblemResults results = ComputeWith({}, problem, values);
  StoreElement(ElementType::kFloat32, 5, OutputIndex(problem, 0, 1, 2) + 3, &results.output);
  StoreElement(ElementType::kFloat32, 500, OutputIndex(problem, 0, 3, 23) + 15, &results.output);
  const std::string report(CheckResults(problem, values, results).message());
  EXPECT_THAT(report, HasSubstr("seed 20240607"));
  EXPECT_THAT(report, HasSubstr("f32 b1 h4/2 q24 k40 d32/16"));
  EXPECT_THAT(report,
              HasSubstr("2 of 1536 elements of output are wrong, the worst: output[0,3,23,15] is 500, must be"));
}

TEST(CheckResultsTest, AByteLeftUnwrittenFails) {
  const AttentionProblem problem = MakeProblem(ElementType::kFloat32);
  const ProblemValues values = Generate(problem, kSeed);
  const ProblemResults complete = ComputeWith({}, problem, values);
  ProblemResults results = complete;
  const ProblemResults untouched(problem);
  std::memcpy(results.output.data(), untouched.output.data(), 4);
  EXPECT_FALSE(CheckResults(problem, values, results).ok());
  results = complete;
  results.logsumexp[7] = untouched.logsumexp[7];
  EXPECT_FALSE(CheckResults(problem, values, results).ok());
  results = complete;
  results.weights[7] = untouched.weights[7];
  EXPECT_FALSE(CheckResults(problem, values, results).ok());
}

TEST(CheckResultsTest, NanAndInfinityCompareByKind) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const AttentionProblem problem = MakeProblem(ElementType::kFloat32);
  ProblemValues values = Generate(problem, kSeed);
  values.value[ValueIndex(problem, 0, 0, 5) + 2] = std::numeric_limits<float>::infinity();
  values.value[ValueIndex(problem, 0, 1, 5) + 3] = kNan;
  const ProblemResults right = ComputeWith({}, problem, values);
  EXPECT_EQ(CheckResults(problem, values, right), absl::OkStatus());
  const int64_t infinite = OutputIndex(problem, 0, 0, 0) + 2;
  const int64_t nan = OutputIndex(problem, 0, 2, 0) + 3;
  for (const auto& [index, wrong] : std::vector<std::pair<int64_t, float>>{
           {infinite, 1e30F}, {infinite, -INFINITY}, {infinite, kNan}, {nan, 0}, {nan, INFINITY}, {nan - 1, kNan}}) {
    ProblemResults results = right;
    StoreElement(ElementType::kFloat32, wrong, index, &results.output);
    EXPECT_FALSE(CheckResults(problem, values, results).ok()) << wrong;
  }
}

TEST(CheckResultsTest, ARowThatSeesNothingMustBeExactlyZero) {
  const AttentionProblem problem = MakeProblem(ElementType::kFloat32, {.key_lengths = {0}});
  const ProblemValues values = Generate(problem, kSeed);
  ProblemResults results = ComputeWith({}, problem, values);
  StoreElement(ElementType::kFloat32, 1e-30, 3, &results.output);
  EXPECT_THAT(CheckResults(problem, values, results).message(), HasSubstr("its output is not 0"));
  results = ComputeWith({}, problem, values);
  results.logsumexp[2] = 0;
  EXPECT_THAT(CheckResults(problem, values, results).message(), HasSubstr("its logsumexp is 0"));
}

TEST(ToleranceTest, BoundsAreThoseOfTheContract) {
  const AttentionProblem problem =
      AttentionProblem::Create({.query_length = 1, .key_length = 1, .head_dim = 1, .value_dim = 1},
                               ElementType::kBFloat16, {.scale = 1.0F}, {})
          .value();
  ProblemValues values;
  values.query = {2};
  values.key = {16};
  values.value = {4};
  YardstickErrors errors(problem);
  errors.Add(values, {}, ComputeOracleRow(problem, values, {}));  // exact: no error of the yardstick
  const Tolerances tolerances = errors.ToTolerances();
  EXPECT_DOUBLE_EQ(tolerances.output.absolute, 1e-5 + 32 * 0x1p-24 * 4);
  EXPECT_DOUBLE_EQ(tolerances.output.relative, 0x1p-8);
  EXPECT_DOUBLE_EQ(tolerances.weights.absolute, 1e-5 + 32 * 0x1p-24);
  EXPECT_DOUBLE_EQ(tolerances.scores.absolute, 1e-5);
  EXPECT_DOUBLE_EQ(tolerances.scores.relative, 5e-6);
  EXPECT_DOUBLE_EQ(tolerances.logsumexp.absolute, 1.25e-4);
  EXPECT_DOUBLE_EQ(tolerances.logsumexp.relative, 5e-6);
}

// A bias brings a score of 1000 back to 0: the rounding of 1000 remains.
TEST(ToleranceTest, TheLargestScoreIsThatOfEveryStageAfterTheCap) {
  AttentionOptions options = {.scale = 1.0F};
  options.bias = core::BroadcastTensor{.shape = {1, 1}};
  const AttentionShape shape = {.query_length = 1, .key_length = 1, .head_dim = 1, .value_dim = 1};
  const auto weights_bound = [&shape](const AttentionOptions& with, const ProblemValues& values) {
    const auto problem = AttentionProblem::Create(shape, ElementType::kFloat32, with, {.weights = true}).value();
    YardstickErrors errors(problem);
    errors.Add(values, {}, ComputeOracleRow(problem, values, {}));
    return errors.ToTolerances().weights.absolute;
  };
  EXPECT_DOUBLE_EQ(weights_bound(options, {.query = {1}, .key = {1000}, .value = {1}, .bias = {-1000}}),
                   1e-5 + 1000 * 0x1p-24);
  EXPECT_DOUBLE_EQ(weights_bound(options, {.query = {1}, .key = {0}, .value = {1}, .bias = {-1000}}),
                   1e-5 + 1000 * 0x1p-24);
  options.softcap = 0.5;  // before it a score may be of any size
  EXPECT_DOUBLE_EQ(weights_bound(options, {.query = {1}, .key = {1e6}, .value = {1}, .bias = {0}}),
                   1e-5 + 0.5 * 0x1p-24);
}

TEST(ChooseRowsTest, AllOfThemOrASampleWithTheEnds) {
  const AttentionProblem small = MakeProblem(ElementType::kFloat32);
  EXPECT_EQ(ChooseRows(small, 1, kDefaultOracleWork).size(), 4 * 24);
  const AttentionShape shape = {.batch = 2,
                                .query_heads = 8,
                                .kv_heads = 8,
                                .query_length = 4096,
                                .key_length = 4096,
                                .head_dim = 64,
                                .value_dim = 64};
  const AttentionProblem large = AttentionProblem::Create(shape, ElementType::kFloat32).value();
  const std::vector<RowPosition> rows = ChooseRows(large, 1, kDefaultOracleWork);
  EXPECT_GE(rows.size(), 16);
  EXPECT_LE(rows.size(), 64);
  EXPECT_EQ(rows.front(), (RowPosition{0, 0, 0}));
  EXPECT_EQ(rows.back(), (RowPosition{1, 7, 4095}));
  EXPECT_EQ(rows, ChooseRows(large, 1, kDefaultOracleWork));
  EXPECT_NE(rows, ChooseRows(large, 2, kDefaultOracleWork));
}

}  // namespace
}  // namespace attend::testing
