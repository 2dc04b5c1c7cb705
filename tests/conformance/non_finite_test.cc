// Numbers that are not numbers: they reach exactly the rows that see them.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class NonFiniteTest : public ConformanceOfType {
 protected:
  // A key, or its value, that is not a number.
  struct Place {
    int64_t batch;
    int64_t kv_head;
    int64_t j;
  };
  // Rows that see the key are what the oracle says; all others have the bits that they have in `clean`.
  static void ExpectOnlySeen(const Place& place, const AttentionProblem& problem, const ProblemValues& poisoned,
                             const ProblemResults& clean) {
    const auto [batch, kv_head, j] = place;
    const ProblemResults results = Compute(problem, poisoned);
    EXPECT_EQ(CheckResults(problem, poisoned, results, int64_t{1} << 20), absl::OkStatus()) << "key " << j;
    for (const RowPosition& at : ChooseRows(problem, 0, std::numeric_limits<int64_t>::max())) {
      const bool sees =
          at.batch == batch && KvHead(problem.shape(), at.head) == kv_head && VisibleKeys(problem, poisoned, at)[j];
      if (sees) continue;
      ASSERT_TRUE(SameRow(problem, clean, results, at))
          << Describe(problem) << ": row [" << at.batch << "," << at.head << "," << at.query << "] does not see key "
          << j << " of kv head " << kv_head;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(ElementTypes, NonFiniteTest, ::testing::ValuesIn(kElementTypes), TypeName);

constexpr AttentionShape kShape = {.batch = 2,
                                   .query_heads = 2,
                                   .kv_heads = 1,
                                   .query_length = 80,
                                   .key_length = 150,
                                   .head_dim = 20,
                                   .value_dim = 24};

// Fills key `j` and its value with `number`.
void Poison(const AttentionProblem& problem, int64_t b, int64_t j, float number, ProblemValues* values) {
  const AttentionShape& shape = problem.shape();
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t d = 0; d < shape.head_dim; ++d) values->key[KeyIndex(problem, b, h, j) + d] = number;
    for (int64_t d = 0; d < shape.value_dim; ++d) values->value[ValueIndex(problem, b, h, j) + d] = number;
  }
}

// Fills all keys of each batch element from its number in `key_lengths` on.
void PoisonPadding(const AttentionProblem& problem, float number, ProblemValues* values) {
  for (int64_t b = 0; b < problem.shape().batch; ++b) {
    for (int64_t j = problem.options().key_lengths[b]; j < problem.shape().key_length; ++j) {
      Poison(problem, b, j, number, values);
    }
  }
}

TEST_P(NonFiniteTest, PaddingNeverReachesAResult) {
  for (int64_t key_length : {150, 600, 1100}) {
    AttentionShape shape = kShape;
    shape.key_length = key_length;
    for (CausalAlignment causal : kCausalAlignments) {
      const auto problem = MakeProblem(shape, GetParam(), {.causal = causal, .key_lengths = {key_length - 27, 70}});
      const ProblemValues clean = Generate(problem, 1);
      const ProblemResults want = Compute(problem, clean);
      for (float number : {kNan, kInfinity, -kInfinity}) {
        ProblemValues poisoned = clean;
        PoisonPadding(problem, number, &poisoned);
        EXPECT_EQ(Compute(problem, poisoned).FirstDifference(want), "") << Describe(problem) << " with " << number;
      }
    }
  }
}

TEST_P(NonFiniteTest, KeysBeyondEveryQueryNeverReachAResult) {
  const auto problem = MakeProblem(kShape, GetParam(), {.causal = CausalAlignment::kTopLeft});
  const ProblemValues clean = Generate(problem, 2);
  ProblemValues poisoned = clean;
  for (int64_t j = kShape.query_length; j < kShape.key_length; ++j) Poison(problem, 0, j, kNan, &poisoned);
  EXPECT_EQ(Compute(problem, poisoned).FirstDifference(Compute(problem, clean)), "");
}

// One value that is not a number, in tiles that the causal limit cuts: its column of the rows that see it, nothing
// else.
TEST_P(NonFiniteTest, AValueReachesTheRowsThatSeeIt) {
  AttentionShape shape = {
      .query_heads = 2, .kv_heads = 2, .query_length = 150, .key_length = 650, .head_dim = 8, .value_dim = 20};
  for (CausalAlignment causal : {CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
    const ProblemValues clean = Generate(problem, 3);
    const ProblemResults want = Compute(problem, clean);
    for (int64_t j : {0, 1, 63, 64, 65, 149, 500, 511, 512, 520, 575, 640, 649}) {
      for (float number : {kNan, kInfinity}) {
        ProblemValues poisoned = clean;
        poisoned.value[ValueIndex(problem, 0, 1, j) + 17] = number;
        ExpectOnlySeen({0, 1, j}, problem, poisoned, want);
      }
    }
  }
}

TEST_P(NonFiniteTest, AKeyReachesTheRowsThatSeeIt) {
  AttentionShape shape = {
      .query_heads = 4, .kv_heads = 2, .query_length = 150, .key_length = 650, .head_dim = 8, .value_dim = 4};
  for (CausalAlignment causal : {CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
    const ProblemValues clean = Generate(problem, 4);
    const ProblemResults want = Compute(problem, clean);
    for (int64_t j : {0, 63, 64, 149, 511, 512, 649}) {
      for (float number : {kNan, kInfinity, -kInfinity}) {
        ProblemValues poisoned = clean;
        poisoned.key[KeyIndex(problem, 0, 1, j) + 5] = number;
        ExpectOnlySeen({0, 1, j}, problem, poisoned, want);
      }
    }
  }
}

TEST_P(NonFiniteTest, AQueryReachesItsRowAlone) {
  const auto problem = MakeProblem(kShape, GetParam());
  const ProblemValues clean = Generate(problem, 5);
  const ProblemResults want = Compute(problem, clean);
  const RowPosition poisoned_row = {1, 0, 70};
  for (float number : {kNan, kInfinity, -kInfinity}) {
    ProblemValues poisoned = clean;
    poisoned.query[QueryIndex(problem, 1, 0, 70) + 3] = number;
    const ProblemResults results = Compute(problem, poisoned);
    EXPECT_EQ(CheckResults(problem, poisoned, results), absl::OkStatus());
    EXPECT_TRUE(std::isnan(results.logsumexp[RowIndex(problem, 1, 0, 70)]));
    for (const RowPosition& at : ChooseRows(problem, 0, std::numeric_limits<int64_t>::max())) {
      if (at == poisoned_row) continue;
      ASSERT_TRUE(SameRow(problem, want, results, at)) << at.head << " " << at.query;
    }
  }
}

// A query that is not a number but sees no key: the masks decide, not the numbers.
TEST_P(NonFiniteTest, ARowThatSeesNothingIsZeroWhateverItHolds) {
  const auto problem = MakeProblem(kShape, GetParam(), {.key_lengths = {0, 0}});
  const ProblemValues values = Generate(problem, 6, Constant(kNan), Constant(kInfinity));
  EXPECT_EQ(CheckMasks(problem, values, Compute(problem, values)), absl::OkStatus());
}

// Rows whose visible scores are -inf: some (weight 0), all (NaN), or with one of +inf (NaN).
TEST_P(NonFiniteTest, InfiniteScores) {
  const AttentionShape shape = {.query_length = 3, .key_length = 70, .head_dim = 4, .value_dim = 5};
  const auto problem = MakeProblem(shape, GetParam());
  ProblemValues values = Generate(problem, 7, Constant(1), Normal());
  const auto set_key = [&](int64_t j, float number) { values.key[KeyIndex(problem, 0, 0, j) + 2] = number; };
  set_key(3, -kInfinity);
  set_key(66, -kInfinity);
  ExpectRight(problem, values);
  set_key(10, kInfinity);
  ExpectRight(problem, values);
  EXPECT_TRUE(std::isnan(Compute(problem, values).OutputValues(problem)[0]));
  for (int64_t j = 0; j < shape.key_length; ++j) set_key(j, -kInfinity);
  ExpectRight(problem, values);
  EXPECT_TRUE(std::isnan(Compute(problem, values).logsumexp[0]));
}

// A whole first key block of -inf, then ordinary scores: the running maximum starts late.
TEST_P(NonFiniteTest, ABlockOfMinusInfinityBeforeOrdinaryScores) {
  const AttentionShape shape = {.query_length = 20, .key_length = 1100, .head_dim = 4, .value_dim = 5};
  const auto problem = MakeProblem(shape, GetParam());
  ProblemValues values = Generate(problem, 8, Constant(1), Normal());
  for (int64_t j = 0; j < 1030; ++j) values.key[KeyIndex(problem, 0, 0, j)] = -kInfinity;
  ExpectRight(problem, values);
}

using OverflowTest = ConformanceTest;

TEST_F(OverflowTest, ProductsBeyondFloat32AreInfinite) {
  const AttentionShape shape = {.query_length = 4, .key_length = 80, .head_dim = 4, .value_dim = 5};
  for (ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    const auto problem = MakeProblem(shape, type);
    ProblemValues values = Generate(problem, 9, Constant(0), Normal());
    for (int64_t i = 0; i < shape.query_length; ++i) values.query[QueryIndex(problem, 0, 0, i)] = 0x1p100F;
    values.key[KeyIndex(problem, 0, 0, 7)] = -0x1p100F;  // a score of -inf: not weighed
    ExpectRight(problem, values);
    values.key[KeyIndex(problem, 0, 0, 71)] = 0x1p100F;  // +inf: NaN
    ExpectRight(problem, values);
    EXPECT_TRUE(std::isnan(Compute(problem, values).logsumexp[2]));
  }
}

TEST_F(OverflowTest, ScoresThatTheScaleCarriesBeyondFloat32AreInfinite) {
  const AttentionShape shape = {.query_length = 4, .key_length = 80, .head_dim = 1, .value_dim = 5};
  for (ElementType type : kElementTypes) {
    const auto problem = MakeProblem(shape, type, {.scale = 0x1p127F});
    ProblemValues values = Generate(problem, 10, Constant(1), Normal());
    values.key[KeyIndex(problem, 0, 0, 7)] = -4;  // -inf; all others 2^127
    ExpectRight(problem, values);
    values.key[KeyIndex(problem, 0, 0, 9)] = 4;
    ExpectRight(problem, values);
  }
}

}  // namespace
}  // namespace attend::testing
