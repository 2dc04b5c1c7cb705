// The check of every result that an option adds or changes: what is right passes, and what is wrong on purpose fails.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/generators.h"
#include "tests/testing/oracle_check.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::ElementType;
using core::ResultSelection;
using core::ScoreStage;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr AttentionShape kShape = {
    .batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 6, .key_length = 5, .head_dim = 8, .value_dim = 3};

AttentionProblem MakeProblem(const AttentionOptions& options, const ResultSelection& results,
                             ElementType type = ElementType::kFloat32) {
  return AttentionProblem::Create(kShape, type, options, results).value();
}

void StoreOutput(const AttentionProblem& problem, const RowPosition& at, const std::vector<double>& row,
                 ProblemResults* results) {
  const ElementType type = problem.options().output_type.value_or(problem.type());
  const int64_t size = core::ElementBytes(type);
  for (int64_t d = 0; d < problem.shape().value_dim; ++d) {
    const auto number = static_cast<float>(row[d]);
    const uint16_t half = type == ElementType::kBFloat16 ? core::FloatToBFloat16(number) : core::FloatToFloat16(number);
    const void* from = type == ElementType::kFloat32 ? static_cast<const void*>(&number) : &half;
    std::memcpy(results->output.data() + (OutputPlace(problem, at) + d) * size, from, size);
  }
}

void StoreScores(const AttentionProblem& problem, const RowPosition& at, const OracleRow& row,
                 ProblemResults* results) {
  const ScoreStage stage = problem.results().scores;
  const std::optional<int64_t> first = ScoresIndex(problem, at);
  if (stage == ScoreStage::kNone || !first.has_value()) return;
  std::copy(row.Scores(stage).begin(), row.Scores(stage).end(), results->scores.begin() + *first);
}

void StoreWeights(const AttentionProblem& problem, const RowPosition& at, const OracleRow& row,
                  ProblemResults* results) {
  const std::optional<int64_t> first = WeightsIndex(problem, at);
  if (!problem.results().weights || !first.has_value()) return;
  if (!problem.results().average_weights_over_heads) {
    std::copy(row.weights.begin(), row.weights.end(), results->weights.begin() + *first);
    return;
  }
  for (size_t j = 0; j < row.weights.size(); ++j) {
    float& mean = results->weights[*first + static_cast<int64_t>(j)];
    if (at.head == 0) mean = 0;
    mean += static_cast<float>(row.weights[j]) / static_cast<float>(problem.shape().query_heads);
  }
}

// What the oracle says, rounded to the types of the results.
ProblemResults OracleResults(const AttentionProblem& problem, const ProblemValues& values) {
  ProblemResults results(problem);
  for (const RowPosition& at : AllRows(problem)) {
    const OracleRow row = ComputeOracleRow(problem, values, at);
    if (!problem.results().omit_output) StoreOutput(problem, at, row.output, &results);
    if (problem.results().logsumexp) {
      results.logsumexp[RowIndex(problem, at.batch, at.head, at.query)] = static_cast<float>(row.logsumexp);
    }
    StoreScores(problem, at, row, &results);
    StoreWeights(problem, at, row, &results);
  }
  return results;
}

TEST(CheckRandomTest, TheOracleItselfPasses) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const ProblemInstance instance = DrawProblem(seed, int64_t{1} << 17);
    EXPECT_EQ(CheckResults(instance.problem, instance.values, OracleResults(instance.problem, instance.values)),
              absl::OkStatus());
  }
}

class CheckOptionsTest : public ::testing::Test {
 protected:
  // A message about results of the oracle after `spoil`.
  template <typename Spoil>
  static std::string Report(const AttentionProblem& problem, Spoil spoil) {
    const ProblemValues values = Generate(problem, 5);
    ProblemResults results = OracleResults(problem, values);
    EXPECT_EQ(CheckResults(problem, values, results), absl::OkStatus());
    spoil(results);
    return std::string(CheckResults(problem, values, results).message());
  }
};

TEST_F(CheckOptionsTest, WrongScoresFail) {
  for (ScoreStage stage : {ScoreStage::kScaled, ScoreStage::kSoftcapped, ScoreStage::kMasked}) {
    const AttentionProblem problem = MakeProblem({.softcap = 1}, {.scores = stage});
    EXPECT_THAT(Report(problem, [](ProblemResults& r) { r.scores[17] += 1e-3F; }),
                HasSubstr("1 of 240 elements of scores are wrong"));
  }
  const AttentionProblem raw = MakeProblem({.softcap = 1}, {.scores = ScoreStage::kScaled});
  EXPECT_THAT(Report(raw, [](ProblemResults& r) { r.scores[17] = std::tanh(r.scores[17]); }), HasSubstr("scores"));
}

TEST_F(CheckOptionsTest, AMaskedScoreMustBeMinusInfinity) {
  const AttentionProblem problem = MakeProblem({.key_lengths = {5, 3}}, {.scores = ScoreStage::kMasked});
  EXPECT_THAT(Report(problem, [](ProblemResults& r) { r.scores.back() = -3e38F; }),
              HasSubstr("row [1,3,5] does not see key 4, but scores it -3e+38"));
}

TEST_F(CheckOptionsTest, RowsOfOtherQueriesFail) {
  const AttentionProblem problem = MakeProblem({}, {.weights = true, .weight_query_rows = {4, 1}});
  EXPECT_THAT(Report(problem,
                     [](ProblemResults& r) {
                       for (int n = 0; n < 5; ++n) std::swap(r.weights[n], r.weights[n + 5]);
                     }),
              HasSubstr("elements of weights are wrong"));
}

TEST_F(CheckOptionsTest, AMeanThatLeavesAHeadOutFails) {
  const AttentionProblem problem = MakeProblem({}, {.weights = true, .average_weights_over_heads = true});
  EXPECT_THAT(Report(problem,
                     [](ProblemResults& r) {
                       for (float& weight : r.weights) weight *= 0.75F;
                     }),
              HasSubstr("elements of weights are wrong"));
}

TEST_F(CheckOptionsTest, AnEmptyRowsLogsumexpIsItsSink) {
  const AttentionProblem problem =
      MakeProblem({.key_lengths = {5, 0}, .sinks = {1, 2, 3, -kInfinity}}, {.logsumexp = true});
  EXPECT_THAT(Report(problem, [](ProblemResults& r) { r.logsumexp.back() = 0; }), HasSubstr("its logsumexp is 0"));
  EXPECT_THAT(Report(problem, [](ProblemResults& r) { r.logsumexp[24] = -kInfinity; }),
              HasSubstr("its logsumexp is -inf"));
}

TEST_F(CheckOptionsTest, WeightsThatForgetTheSinkFail) {
  const AttentionProblem problem = MakeProblem({.sinks = {0, 0, 0, 0}}, {.weights = true});
  EXPECT_THAT(Report(problem,
                     [](ProblemResults& r) {
                       float sum = 0;
                       for (int j = 0; j < 5; ++j) sum += r.weights[j];
                       for (int j = 0; j < 5; ++j) r.weights[j] /= sum;
                     }),
              HasSubstr("elements of weights are wrong"));
}

// With compute type BF16 the bounds are bf16's, around the oracle of the f32 inputs.
TEST_F(CheckOptionsTest, AComputeTypeWidensTheBounds) {
  for (const auto& [type, limit] : {std::pair(core::ComputeType::kAsInputs, 0), {core::ComputeType::kBFloat16, 1}}) {
    const AttentionProblem problem = MakeProblem({.compute_type = type}, {.logsumexp = true});
    ProblemValues values = Generate(problem, 5);
    ProblemValues rounded = values;
    for (auto* tensor : {&rounded.query, &rounded.key, &rounded.value}) {
      for (float& element : *tensor) element = RoundTo(ElementType::kBFloat16, element);
    }
    EXPECT_EQ(CheckResults(problem, values, OracleResults(problem, rounded)).ok(), limit == 1);
  }
}

// Two keys of equal scores are weighed exactly in bf16, two others are not.
TEST_F(CheckOptionsTest, ALuckyYardstickIsMeasuredOnOtherValues) {
  const AttentionShape shape = {.query_length = 1, .key_length = 2, .head_dim = 1, .value_dim = 1};
  const AttentionProblem problem =
      AttentionProblem::Create(shape, ElementType::kBFloat16, {.output_type = ElementType::kFloat32}).value();
  const ProblemValues values = {.query = {1}, .key = {0, 0}, .value = {1, 1}};
  std::vector<ProblemValues> alike;
  for (uint64_t seed = 0; seed < 30; ++seed) alike.push_back(Generate(problem, seed));
  ProblemResults results(problem);
  for (const auto& [output, right] : {std::pair(1.005F, true), {1.1F, false}}) {
    std::memcpy(results.output.data(), &output, sizeof(output));
    EXPECT_FALSE(CheckResults(problem, values, results).ok());
    EXPECT_EQ(CheckResultsAmong(problem, values, results, alike).ok(), right) << output;
  }
}

TEST_F(CheckOptionsTest, ExactMeansEveryBit) {
  const AttentionProblem problem =
      MakeProblem({.scale = 256.0F}, {.weights = true, .scores = ScoreStage::kMasked, .logsumexp = true});
  const ProblemValues values = Generate(problem, 6, Integers(1), Integers(3));
  const ProblemResults right = OracleResults(problem, values);
  EXPECT_EQ(CheckExact(problem, values, right), absl::OkStatus());
  // Of a row whose largest score is one key's alone, so that all of it is exact.
  RowPosition exact;
  for (const RowPosition& at : AllRows(problem)) {
    const std::vector<double> weights = ComputeOracleRow(problem, values, at).weights;
    if (std::count(weights.begin(), weights.end(), 1.0) == 1) exact = at;
  }
  const int64_t row = RowIndex(problem, exact.batch, exact.head, exact.query);
  ProblemResults wrong = right;
  wrong.scores[row * kShape.key_length] = std::nextafter(wrong.scores[row * kShape.key_length], 1e9F);
  EXPECT_THAT(CheckExact(problem, values, wrong).message(), HasSubstr("1 of 240 elements of scores"));
  wrong = right;
  wrong.weights[row * kShape.key_length] = std::nextafter(wrong.weights[row * kShape.key_length], 9.0F);
  EXPECT_THAT(CheckExact(problem, values, wrong).message(), HasSubstr("elements of weights"));
  wrong = right;
  wrong.logsumexp[row] = std::nextafter(wrong.logsumexp[row], 1e9F);
  EXPECT_THAT(CheckExact(problem, values, wrong).message(), HasSubstr("elements of logsumexp"));
  wrong = right;
  wrong.output[row * kShape.value_dim * sizeof(float)] ^= std::byte{1};
  EXPECT_THAT(CheckExact(problem, values, wrong).message(), HasSubstr("elements of output"));
}

}  // namespace
}  // namespace attend::testing
