// Problems that must agree with each other, whatever the oracle says: keys in another order, in two parts, beside
// padding; scores shifted; heads expanded. Random problems with every option; a failure prints both and the seed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"
#include "tests/conformance/problem_change.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::ElementType;
using core::Layout;
using core::ScoreStage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kOracleWork = int64_t{1} << 19;
constexpr int64_t kMaxMultiplyAdds = int64_t{1} << 22;
constexpr int kProblemsPerTest = 6;

// A problem in a layout with a batch axis, with keys and queries.
ProblemInstance DrawDense(uint64_t seed) {
  for (;; seed += 1'000'000) {
    ProblemInstance drawn = DrawProblem(seed, kMaxMultiplyAdds);
    const core::AttentionShape& s = drawn.problem.shape();
    if (drawn.problem.options().layout != Layout::kTHD && s.key_length > 0 && s.query_length > 0) return drawn;
  }
}

// Where query 0 stands, as the contract says; nothing if that is at the edges of int64.
std::optional<int64_t> OffsetOf(const AttentionProblem& problem, int64_t b) {
  const core::AttentionOptions& options = problem.options();
  if (!options.query_offset.empty()) {
    const int64_t offset = options.query_offset[b];
    return std::abs(static_cast<double>(offset)) > 1e17 ? std::nullopt : std::optional(offset);
  }
  if (options.causal != core::CausalAlignment::kBottomRight) return 0;
  const int64_t keys = options.key_lengths.empty() ? problem.shape().key_length : options.key_lengths[b];
  return keys - problem.shape().query_length;
}

// The problem with its offsets spelled out, so that a change to its keys moves no query.
std::optional<ProblemInstance> WithOffsets(const ProblemInstance& whole) {
  ProblemParts parts = ProblemParts::Of(whole);
  parts.options.query_offset.clear();
  for (int64_t b = 0; b < parts.shape.batch; ++b) {
    const std::optional<int64_t> offset = OffsetOf(whole.problem, b);
    if (!offset.has_value()) return std::nullopt;
    parts.options.query_offset.push_back(*offset);
  }
  return parts.ToInstance();
}

std::vector<int64_t> AllKeys(const ProblemInstance& instance) {
  std::vector<int64_t> keys(instance.problem.shape().key_length);
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

class MetamorphicTest : public ConformanceTest, public ::testing::WithParamInterface<int> {
 protected:
  // The seeds of this test.
  static std::vector<uint64_t> Seeds() {
    std::vector<uint64_t> seeds;
    for (int n = 0; n < kProblemsPerTest; ++n) seeds.push_back(50'000 + 100 * GetParam() + n);
    return seeds;
  }
  static ProblemResults Compute(const ProblemInstance& instance) {
    return ConformanceTest::Compute(instance.problem, instance.values);
  }
  // `results` of a changed problem are right for the original one.
  static void ExpectRightFor(const ProblemInstance& original, const ProblemResults& results,
                             const ProblemInstance& changed) {
    EXPECT_EQ(CheckResults(original.problem, original.values, results, OracleWork(kOracleWork)), absl::OkStatus())
        << "computed as " << Describe(changed.problem);
  }
  static void ExpectSameBits(const ProblemInstance& changed, const ProblemResults& got, const ProblemInstance& original,
                             const ProblemResults& want) {
    EXPECT_EQ(got.FirstDifference(want), "")
        << Describe(changed.problem) << "\nand " << Describe(original.problem) << ", seed " << original.values.seed;
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, MetamorphicTest, ::testing::Range(0, 8));

TEST_P(MetamorphicTest, KeysInAnotherOrder) {
  for (uint64_t seed : Seeds()) {
    const ProblemInstance original = WithoutPositions(DrawDense(seed));
    std::vector<int64_t> keys = AllKeys(original);
    std::mt19937_64 random(seed);
    std::shuffle(keys.begin(), keys.end(), random);
    const ProblemInstance shuffled = SelectKeys(original, keys);
    ExpectRightFor(original, RestoreKeys(original, keys, Compute(shuffled)), shuffled);
  }
}

// Weights of 0, 1/2 and 1 and whole values: no order of a sum can matter.
TEST_P(MetamorphicTest, KeysInAnotherOrderToTheBitWhereArithmeticIsExact) {
  for (uint64_t seed : Seeds()) {
    ProblemParts parts = ProblemParts::Of(WithoutPositions(DrawDense(seed)));
    parts.options.scale = 256.0F;
    parts.options.softcap = 0;
    const auto problem = parts.ToInstance().problem;
    const Fill whole = [fill = Integers(3)](std::mt19937_64& random) { return 256 * fill(random); };
    const ProblemInstance original = {
        problem, Generate(problem, seed, {.query_and_key = Integers(1), .value = Integers(3), .bias = whole})};
    std::vector<int64_t> keys = AllKeys(original);
    std::mt19937_64 random(seed);
    std::shuffle(keys.begin(), keys.end(), random);
    const ProblemInstance shuffled = SelectKeys(original, keys);
    ExpectSameBits(shuffled, RestoreKeys(original, keys, Compute(shuffled)), original, Compute(original));
  }
}

// Keys [begin, end) of a problem as one part of a computation that is merged, with the sinks or without.
ProblemInstance PartOfKeys(const ProblemInstance& whole, int64_t begin, int64_t end, bool sinks) {
  std::vector<int64_t> keys(end - begin);
  std::iota(keys.begin(), keys.end(), begin);
  ProblemParts parts = ProblemParts::Of(whole);
  for (int64_t& length : parts.options.key_lengths) length = std::clamp<int64_t>(length, begin, end) - begin;
  for (int64_t& offset : parts.options.query_offset) offset -= begin;
  if (!sinks) parts.options.sinks.clear();
  std::vector<int64_t> lengths = std::exchange(parts.options.key_lengths, {});
  ProblemParts part = ProblemParts::Of(SelectKeys(parts.ToInstance(), keys));
  part.options.key_lengths = std::move(lengths);
  return part.ToInstance();
}

// Merges one row of partial results by the contract's formula.
void MergeRow(const std::vector<ProblemInstance>& parts, const std::vector<ProblemResults>& results,
              const RowPosition& at, ProblemResults* merged) {
  const AttentionProblem& problem = parts.front().problem;
  const int64_t row = RowIndex(problem, at.batch, at.head, at.query);
  double largest = -kInfinity;
  for (const ProblemResults& part : results) largest = std::max(largest, double{part.logsumexp[row]});
  merged->logsumexp[row] = -kInfinity;
  double sum = 0;
  std::vector<double> output(problem.shape().value_dim);
  for (const ProblemResults& part : results) {
    if (part.logsumexp[row] == -kInfinity) continue;
    const double weight = std::exp(double{part.logsumexp[row]} - largest);
    sum += weight;
    for (size_t d = 0; d < output.size(); ++d) {
      float element = 0;
      std::memcpy(&element, part.output.data() + (OutputPlace(problem, at) + d) * sizeof(float), sizeof(float));
      output[d] += weight * double{element};
    }
  }
  if (sum > 0) merged->logsumexp[row] = static_cast<float>(largest + std::log(sum));
  for (size_t d = 0; d < output.size(); ++d) {
    const auto element = static_cast<float>(sum > 0 ? output[d] / sum : 0);
    std::memcpy(merged->output.data() + (OutputPlace(problem, at) + d) * sizeof(float), &element, sizeof(float));
  }
}

// The problem with what a merge needs: logsumexp and an output in f32. Nothing where scores are so large that a
// rounding of the logsumexp shows.
std::optional<ProblemInstance> Mergeable(uint64_t seed) {
  std::optional<ProblemInstance> instance = WithOffsets(DrawDense(seed));
  if (!instance.has_value()) return std::nullopt;
  for (float bias : instance->values.bias) {
    if (std::isfinite(bias) && std::abs(bias) > 100) return std::nullopt;
  }
  ProblemParts parts = ProblemParts::Of(*instance);
  parts.results = {.logsumexp = true};
  parts.options.output_type = ElementType::kFloat32;
  for (float& slope : parts.options.alibi_slopes) slope /= 16;
  return parts.ToInstance();
}

TEST_P(MetamorphicTest, KeysInPartsMergedByLogsumexp) {
  for (uint64_t seed : Seeds()) {
    const std::optional<ProblemInstance> whole = Mergeable(seed);
    if (!whole.has_value()) continue;
    Draw draw(seed);
    const int64_t length = whole->problem.shape().key_length;
    int64_t borders[] = {0, draw.Between(0, length), draw.Between(0, length), length};
    std::sort(std::begin(borders), std::end(borders));
    const int64_t sink_part = draw.Between(0, 2);  // exactly one, an empty one perhaps
    std::vector<ProblemInstance> parts;
    std::vector<ProblemResults> results;
    for (int n = 0; n < 3; ++n) {
      parts.push_back(PartOfKeys(*whole, borders[n], borders[n + 1], /*sinks=*/n == sink_part));
      results.push_back(Compute(parts.back()));
    }
    ProblemResults merged(whole->problem);
    for (const RowPosition& at : AllRows(whole->problem)) MergeRow(parts, results, at, &merged);
    ExpectRightFor(*whole, merged, parts.back());
  }
}

// A constant of each row, or of each head where sinks move with it: the weights stay, the logsumexp moves.
TEST_P(MetamorphicTest, AConstantAddedToTheScoresOfARow) {
  for (uint64_t seed : Seeds()) {
    ProblemInstance original = DrawDense(seed);
    ProblemParts parts = ProblemParts::Of(original);
    parts.results.scores = ScoreStage::kNone;
    parts.results.weights = true;
    parts.results.logsumexp = true;
    original = parts.ToInstance();
    Draw draw(seed);
    std::vector<float> added;
    std::vector<float> of_heads;
    for (int64_t h = 0; h < parts.shape.query_heads; ++h) of_heads.push_back(static_cast<float>(draw.Between(-4, 4)));
    for (const RowPosition& at : AllRows(original.problem)) {
      added.push_back(parts.options.sinks.empty() ? static_cast<float>(draw.Between(-4, 4)) : of_heads[at.head]);
    }
    ProblemParts shifted_parts = ProblemParts::Of(AddToRows(original, added));
    for (size_t h = 0; h < shifted_parts.options.sinks.size(); ++h) shifted_parts.options.sinks[h] += of_heads[h];
    const ProblemInstance shifted = shifted_parts.ToInstance();
    ProblemResults results = Compute(shifted);
    for (size_t row = 0; row < added.size(); ++row) results.logsumexp[row] -= added[row];
    ExpectRightFor(original, results, shifted);
  }
}

// Masked keys after all others, of any content: the same bits.
TEST_P(MetamorphicTest, PaddingAfterTheKeys) {
  for (uint64_t seed : Seeds()) {
    const std::optional<ProblemInstance> original = WithOffsets(DrawDense(seed));
    if (!original.has_value()) continue;
    Draw draw(seed);
    std::vector<int64_t> keys = AllKeys(*original);
    keys.insert(keys.end(), draw.OneIn(2) ? draw.Between(1, 70) : draw.Between(500, 600), kPaddingKey);
    const ProblemResults want = Compute(*original);
    for (float padding : {0.0F, kNan, kInfinity, -kInfinity}) {
      const ProblemInstance padded = SelectKeys(*original, keys, padding);
      ExpectSameBits(padded, RestoreKeys(*original, keys, Compute(padded)), *original, want);
    }
  }
}

// Masked keys anywhere: what they hold shows nowhere.
TEST_P(MetamorphicTest, PaddingAmongTheKeys) {
  for (uint64_t seed : Seeds()) {
    const ProblemInstance original = WithoutPositions(DrawDense(seed));
    Draw draw(seed);
    std::vector<int64_t> keys;
    const int64_t often = draw.Between(1, 3);
    if (draw.OneIn(2)) keys.insert(keys.end(), draw.Between(1, 600), kPaddingKey);
    for (int64_t key : AllKeys(original)) {
      while (draw.OneIn(2 * often)) keys.push_back(kPaddingKey);
      keys.push_back(key);
    }
    const ProblemInstance clean = SelectKeys(original, keys, 0);
    const ProblemResults want = Compute(clean);
    const ProblemResults restored = RestoreKeys(original, keys, want);
    ExpectRightFor(original, restored, clean);
    for (float padding : {kNan, kInfinity, -kInfinity}) {
      const ProblemInstance padded = SelectKeys(original, keys, padding);
      ExpectSameBits(padded, RestoreKeys(original, keys, Compute(padded)), clean, restored);
    }
  }
}

TEST_P(MetamorphicTest, AGroupOfHeadsAndItsExpandedForm) {
  for (uint64_t seed : Seeds()) {
    const ProblemInstance original = DrawDense(seed);
    const ProblemInstance expanded = ExpandHeads(original);
    ExpectRightFor(original, Compute(expanded), expanded);
  }
}

// Options that say nothing: the same bits as without them.
TEST_P(MetamorphicTest, OptionsThatExcludeNothing) {
  for (uint64_t seed : Seeds()) {
    const ProblemInstance original = DrawDense(seed);
    const ProblemResults want = Compute(original);
    ProblemParts parts = ProblemParts::Of(original);
    const core::AttentionShape& s = parts.shape;
    if (!parts.options.mask.has_value()) {
      parts.options.mask = core::BroadcastTensor{.shape = {s.query_length, s.key_length}};
      parts.values.mask.assign(s.query_length * s.key_length, 1);
    }
    if (parts.options.key_lengths.empty()) parts.options.key_lengths.assign(s.batch, s.key_length);
    if (parts.options.sinks.empty()) parts.options.sinks.assign(s.query_heads, -kInfinity);
    if (parts.options.query_offset.empty()) {
      if (parts.options.window_left == -1) parts.options.window_left = std::numeric_limits<int64_t>::max();
      if (parts.options.window_right == -1) parts.options.window_right = std::numeric_limits<int64_t>::max();
    }
    const ProblemInstance spelled_out = parts.ToInstance();
    ExpectSameBits(spelled_out, Compute(spelled_out), original, want);
  }
}

// An output in f32 is the output before it is rounded.
TEST_P(MetamorphicTest, AnOutputInFloat32RoundsToTheOutput) {
  for (uint64_t seed : Seeds()) {
    ProblemParts parts = ProblemParts::Of(DrawDense(seed));
    parts.results = {};
    parts.options.output_type = std::nullopt;
    const ProblemInstance rounded = parts.ToInstance();
    parts.options.output_type = ElementType::kFloat32;
    const ProblemInstance whole = parts.ToInstance();
    std::vector<float> want = Compute(whole).OutputValues(whole.problem);
    for (float& element : want) element = RoundTo(parts.type, element);
    EXPECT_EQ(Compute(rounded).OutputValues(rounded.problem), want) << Describe(rounded.problem) << ", seed " << seed;
  }
}

}  // namespace
}  // namespace attend::testing
