// Every combination of options over every tiny shape: RE2's idea of comparing the fast engine with the slow one on all
// small inputs. What a combination leaves open (how wide a window, which shape a mask has, which results) is drawn from
// its number. All tensors hold small whole numbers.
//
// Of each combination there are two problems. In the exact one everything that is scored is a multiple of 256, so that
// arithmetic is exact in f32 and a weight is 0 or one over a number of keys: results must be the oracle's to the bit.
// In the other one scores are small, weights all differ, and the bounds of the contract hold.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"
#include "tests/testing/random_problem.h"
#include "tests/testing/yardstick.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;
using core::ResultSelection;
using core::ScoreStage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// Other values of a problem of 16 bits that its yardstick is measured on where it was lucky on these.
constexpr uint64_t kAlike = 30;

// The tests that share the combinations, so that they can run beside each other.
constexpr int kParts = 48;

// The computation of one combination in so many: set where time is short (CMakeLists.txt says where).
int64_t Stride() {
  const char* stride = std::getenv("ATTEND_TEST_EXHAUSTIVE_STRIDE");
  return stride == nullptr ? 1 : std::max(1, std::atoi(stride));
}

// A prime that divides no number of combinations. The nth combination is number n * kScatter, so that some of them, at
// equal distances, are a sample of all.
constexpr int64_t kScatter = 1'000'003;

// Numbers from 0, one for each combination, read as digits.
class Digits {
 public:
  explicit Digits(int64_t number) : number_(number) {}

  int64_t Below(int64_t base) {
    const int64_t digit = number_ % base;
    number_ /= base;
    return digit;
  }
  bool Flag() { return Below(2) == 1; }
  bool exhausted() const { return number_ == 0; }  // the combination exists

 private:
  int64_t number_;
};

constexpr std::pair<int64_t, int64_t> kHeads[] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 3}, {4, 1}, {4, 2}, {4, 4}};

// What the numbers of a problem are multiples of.
struct Units {
  bool exact = false;
  float score = 1;    // of bias, ALiBi and sinks
  float softcap = 1;  // the cap; an exact one is reached: tanh(32) is 1
  float Scale(bool capped) const { return exact && capped ? 32 * score : score; }
};

Units UnitsOf(bool exact, Draw& draw) {
  if (exact) return {.exact = true, .score = 256, .softcap = 256};
  constexpr float kScores[] = {0.25, 0.5, 1};
  constexpr float kSoftcaps[] = {0.5, 2, 20};
  return {.score = draw.From(kScores), .softcap = draw.From(kSoftcaps)};
}

void SetWindow(int64_t sides, Draw& draw, AttentionOptions* options) {
  const auto width = [&draw] { return draw.OneIn(20) ? kUnbounded : draw.Between(0, 3); };
  if (sides == 1 || sides == 3) options->window_left = width();
  if (sides == 2 || sides == 3) options->window_right = width();
}

void SetSlopesAndSinks(int64_t heads, std::pair<bool, bool> given, const Units& units, Draw& draw,
                       AttentionOptions* options) {
  for (int64_t h = 0; h < heads; ++h) {
    if (given.first) options->alibi_slopes.push_back(units.score * static_cast<float>(draw.Between(-1, 3)));
    if (!given.second) continue;
    options->sinks.push_back(draw.OneIn(6) ? -kInfinity : units.score * static_cast<float>(draw.Between(-4, 6)));
  }
}

// What every layout has: causal mask, offset, window, softcap, slopes and sinks.
void SetPlainOptions(const AttentionShape& shape, const Units& units, Digits& digits, Draw& draw,
                     AttentionOptions* options) {
  options->causal = kCausalAlignments[digits.Below(3)];
  if (digits.Flag()) {
    for (int64_t b = 0; b < shape.batch; ++b) options->query_offset.push_back(draw.Between(-4, 5));
  }
  SetWindow(digits.Below(4), draw, options);
  const bool capped = digits.Flag();
  if (capped) options->softcap = units.softcap;
  options->scale = units.Scale(capped) * (draw.OneIn(3) ? -1.0F : 1.0F);
  const bool slopes = digits.Flag();
  SetSlopesAndSinks(shape.query_heads, {slopes, digits.Flag()}, units, draw, options);
}

void SetTensorMasks(const AttentionShape& shape, Digits& digits, Draw& draw, AttentionOptions* options) {
  if (digits.Flag()) {
    for (int64_t b = 0; b < shape.batch; ++b) options->key_lengths.push_back(draw.Between(0, shape.key_length));
  }
  if (digits.Flag()) options->mask = {.shape = DrawBroadcastShape(shape, draw)};
  if (digits.Flag()) options->bias = {.shape = DrawBroadcastShape(shape, draw), .type = draw.From(kElementTypes)};
}

void SetTypes(Draw& draw, ElementType type, AttentionOptions* options) {
  if (type != ElementType::kFloat16 && draw.OneIn(6)) options->compute_type = core::ComputeType::kBFloat16;
  if (draw.OneIn(5)) options->output_type = draw.OneIn(3) ? type : ElementType::kFloat32;
}

ResultSelection SequenceResults(Draw& draw) {
  ResultSelection results = {.logsumexp = !draw.OneIn(4)};
  results.omit_output = results.logsumexp && draw.OneIn(10);
  return results;
}

ResultSelection DenseResults(const AttentionShape& shape, Draw& draw) {
  constexpr ScoreStage kStages[] = {ScoreStage::kNone, ScoreStage::kScaled, ScoreStage::kSoftcapped,
                                    ScoreStage::kMasked};
  ResultSelection results = {.weights = !draw.OneIn(3), .scores = draw.From(kStages), .logsumexp = !draw.OneIn(4)};
  if (results.weights) results.average_weights_over_heads = draw.OneIn(5);
  if (shape.query_length > 0 && (results.weights || results.scores != ScoreStage::kNone) && draw.OneIn(4)) {
    results.weight_query_rows = {draw.Between(0, shape.query_length - 1)};
    const int64_t other = draw.Between(0, shape.query_length - 1);
    if (other != results.weight_query_rows[0]) results.weight_query_rows.push_back(other);
  }
  const bool others = results.weights || results.logsumexp || results.scores != ScoreStage::kNone;
  results.omit_output = others && draw.OneIn(10);
  return results;
}

// A problem, and how its values are drawn.
struct Combination {
  AttentionProblem problem;
  uint64_t seed;
  Fills fills;

  // The values of this number: 0 for those that are computed with.
  ProblemValues Values(uint64_t number) const {
    ProblemValues values = Generate(problem, seed + (number << 32), fills);
    Draw draw(seed + number);
    for (uint8_t& element : values.mask) element *= static_cast<uint8_t>(draw.Between(1, 255));  // all but 0 is true
    return values;
  }
};

Combination Combine(AttentionProblem problem, uint64_t seed, const Units& units, Draw& draw) {
  const auto whole = [](int largest, float unit) {
    return [fill = Integers(largest), unit](std::mt19937_64& random) { return unit * fill(random); };
  };
  Fills fills = {.query_and_key = Integers(2), .value = Integers(3), .bias = whole(3, units.score)};
  if (draw.OneIn(2)) fills.bias = OneIn(4, -kInfinity, fills.bias);
  constexpr int kFalseOneIn[] = {1, 2, 2, 4, 1000};
  fills.mask = OneIn(draw.From(kFalseOneIn), 0, Constant(1));
  return {std::move(problem), seed, fills};
}

// Lengths of 0 to 4 and 1 to 4 heads, in both layouts with a batch axis.
constexpr int64_t kDenseCombinations = 8 * 5 * 5 * 2 * (3 * 2 * 4 * 2 * 2 * 2) * (2 * 2 * 2);

std::optional<Combination> DenseProblem(int64_t number, bool exact) {
  const uint64_t seed = 2 * number + (exact ? 1 : 0);
  Digits digits(number);
  Draw draw(seed);
  const auto [query_heads, kv_heads] = kHeads[digits.Below(8)];
  const AttentionShape shape = {.batch = draw.OneIn(40) ? 0 : draw.Between(1, 2),
                                .query_heads = query_heads,
                                .kv_heads = kv_heads,
                                .query_length = digits.Below(5),
                                .key_length = digits.Below(5),
                                .head_dim = draw.Between(1, 3),
                                .value_dim = draw.Between(1, 3)};
  AttentionOptions options;
  options.layout = digits.Flag() ? Layout::kBNHD : Layout::kBHND;
  const Units units = UnitsOf(exact, draw);
  SetPlainOptions(shape, units, digits, draw, &options);
  SetTensorMasks(shape, digits, draw, &options);
  if (!digits.exhausted()) return std::nullopt;
  const ElementType type = draw.From(kElementTypes);
  SetTypes(draw, type, &options);
  auto problem = AttentionProblem::Create(shape, type, options, DenseResults(shape, draw));
  EXPECT_TRUE(problem.ok()) << problem.status() << ", combination " << number;
  return Combine(*std::move(problem), seed, units, draw);
}

// Two sequences of 0 to 2 queries and 0 to 3 keys.
constexpr int64_t kSequenceCombinations = 8 * (3 * 4) * (3 * 4) * (3 * 2 * 4 * 2 * 2 * 2);

std::optional<Combination> SequenceProblem(int64_t number, bool exact) {
  const uint64_t seed = 2 * (kDenseCombinations + number) + (exact ? 1 : 0);
  Digits digits(number);
  Draw draw(seed);
  const auto [query_heads, kv_heads] = kHeads[digits.Below(8)];
  AttentionOptions options = {.layout = Layout::kTHD, .query_starts = {0}, .key_starts = {0}};
  for (int sequence = 0; sequence < 2; ++sequence) {
    options.query_starts.push_back(options.query_starts.back() + digits.Below(3));
    options.key_starts.push_back(options.key_starts.back() + digits.Below(4));
  }
  const AttentionShape shape = {.batch = 2,
                                .query_heads = query_heads,
                                .kv_heads = kv_heads,
                                .query_length = options.query_starts.back(),
                                .key_length = options.key_starts.back(),
                                .head_dim = draw.Between(1, 3),
                                .value_dim = draw.Between(1, 3)};
  const Units units = UnitsOf(exact, draw);
  SetPlainOptions(shape, units, digits, draw, &options);
  if (!digits.exhausted()) return std::nullopt;
  const ElementType type = draw.From(kElementTypes);
  SetTypes(draw, type, &options);
  auto problem = AttentionProblem::Create(shape, type, options, SequenceResults(draw));
  EXPECT_TRUE(problem.ok()) << problem.status() << ", combination " << number;
  return Combine(*std::move(problem), seed, units, draw);
}

class ExhaustiveTest : public ConformanceTest, public ::testing::WithParamInterface<int> {
 protected:
  static void ExpectOracle(const Combination& combination, bool exact) {
    const AttentionProblem& problem = combination.problem;
    const ProblemValues values = combination.Values(0);
    const auto results = runner().RunHere(problem, values);
    ASSERT_TRUE(results.ok()) << results.status() << " of " << Describe(problem) << ", seed " << values.seed;
    ASSERT_EQ(exact ? CheckExact(problem, values, *results) : absl::OkStatus(), absl::OkStatus());
    absl::Status right = CheckResults(problem, values, *results);
    if (!right.ok() && NaiveType(problem) != ElementType::kFloat32) {
      std::vector<ProblemValues> alike;
      for (uint64_t number = 1; number <= kAlike; ++number) alike.push_back(combination.Values(number));
      right = CheckResultsAmong(problem, values, *results, alike);
    }
    ASSERT_EQ(right, absl::OkStatus());
  }

  // This test's part of the combinations; ends at the first that is wrong.
  template <typename Make>
  static void ExpectEvery(int64_t combinations, Make make) {
    const int64_t stride = Stride();
    for (int64_t n = GetParam(); n < combinations && !HasFailure(); n += kParts * stride) {
      const int64_t number = n * kScatter % combinations;
      for (bool exact : {true, false}) {
        const std::optional<Combination> combination = make(number, exact);
        ASSERT_TRUE(combination.has_value()) << "there are fewer than " << number;
        ExpectOracle(*combination, exact);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Parts, ExhaustiveTest, ::testing::Range(0, kParts));

TEST_P(ExhaustiveTest, EveryCombinationOfOptions) { ExpectEvery(kDenseCombinations, DenseProblem); }

TEST_P(ExhaustiveTest, EveryCombinationOfOptionsOverSequences) { ExpectEvery(kSequenceCombinations, SequenceProblem); }

// The numbers above are what the digits make: the last combination exists, the next does not.
TEST(ExhaustiveCombinationsTest, AreAsManyAsSaid) {
  EXPECT_TRUE(DenseProblem(kDenseCombinations - 1, false).has_value());
  EXPECT_FALSE(DenseProblem(kDenseCombinations, false).has_value());
  EXPECT_TRUE(SequenceProblem(kSequenceCombinations - 1, false).has_value());
  EXPECT_FALSE(SequenceProblem(kSequenceCombinations, false).has_value());
}

}  // namespace
}  // namespace attend::testing
