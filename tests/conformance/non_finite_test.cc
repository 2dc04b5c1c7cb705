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

struct KeyPosition {
  int64_t batch, kv_head, key;
};

class NonFiniteTest : public ConformanceOfType {
 protected:
  // Rows that see the key are what the oracle says; all others have the bits that they have in `clean`.
  static void ExpectOnlySeenBy(const KeyPosition& key, const AttentionProblem& problem, const ProblemValues& poisoned,
                               const ProblemResults& clean) {
    const ProblemResults results = Compute(problem, poisoned);
    EXPECT_EQ(CheckResults(problem, poisoned, results, int64_t{1} << 20), absl::OkStatus()) << "key " << key.key;
    for (const RowPosition& at : ChooseRows(problem, 0, std::numeric_limits<int64_t>::max())) {
      const bool sees =
          at.batch == key.batch && KvHead(problem.shape(), at.head) == key.kv_head && VisibleKeys(problem, at)[key.key];
      if (sees) continue;
      ASSERT_TRUE(SameRow(problem, clean, results, at))
          << Describe(problem) << ": row [" << at.batch << "," << at.head << "," << at.query << "] does not see key "
          << key.key << " of kv head " << key.kv_head;
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
void Poison(const AttentionShape& shape, int64_t b, int64_t j, float number, ProblemValues* values) {
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t d = 0; d < shape.head_dim; ++d) values->key[KeyIndex(shape, b, h, j) + d] = number;
    for (int64_t d = 0; d < shape.value_dim; ++d) values->value[ValueIndex(shape, b, h, j) + d] = number;
  }
}

// Fills what is beyond each batch element's key length.
void PoisonPadding(const AttentionProblem& problem, float number, ProblemValues* values) {
  const AttentionShape& shape = problem.shape();
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t j = problem.options().key_lengths[b]; j < shape.key_length; ++j) Poison(shape, b, j, number, values);
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
  for (int64_t j = kShape.query_length; j < kShape.key_length; ++j) Poison(kShape, 0, j, kNan, &poisoned);
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
        poisoned.value[ValueIndex(shape, 0, 1, j) + 17] = number;
        ExpectOnlySeenBy({0, 1, j}, problem, poisoned, want);
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
        poisoned.key[KeyIndex(shape, 0, 1, j) + 5] = number;
        ExpectOnlySeenBy({0, 1, j}, problem, poisoned, want);
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
    poisoned.query[QueryIndex(kShape, 1, 0, 70) + 3] = number;
    const ProblemResults results = Compute(problem, poisoned);
    EXPECT_EQ(CheckResults(problem, poisoned, results), absl::OkStatus());
    EXPECT_TRUE(std::isnan(results.logsumexp[RowIndex(kShape, 1, 0, 70)]));
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
  EXPECT_EQ(CheckMasks(problem, Compute(problem, values)), absl::OkStatus());
}

// Rows whose visible scores are -inf: some (weight 0), all (NaN), or with one of +inf (NaN).
TEST_P(NonFiniteTest, InfiniteScores) {
  const AttentionShape shape = {.query_length = 3, .key_length = 70, .head_dim = 4, .value_dim = 5};
  const auto problem = MakeProblem(shape, GetParam());
  ProblemValues values = Generate(problem, 7, Constant(1), Normal());
  const auto set_key = [&](int64_t j, float number) { values.key[KeyIndex(shape, 0, 0, j) + 2] = number; };
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
  for (int64_t j = 0; j < 1030; ++j) values.key[KeyIndex(shape, 0, 0, j)] = -kInfinity;
  ExpectRight(problem, values);
}

using OverflowTest = ConformanceTest;

TEST_F(OverflowTest, ProductsBeyondFloat32AreInfinite) {
  const AttentionShape shape = {.query_length = 4, .key_length = 80, .head_dim = 4, .value_dim = 5};
  for (ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    const auto problem = MakeProblem(shape, type);
    ProblemValues values = Generate(problem, 9, Constant(0), Normal());
    for (int64_t i = 0; i < shape.query_length; ++i) values.query[QueryIndex(shape, 0, 0, i)] = 0x1p100F;
    values.key[KeyIndex(shape, 0, 0, 7)] = -0x1p100F;  // a score of -inf: not weighed
    ExpectRight(problem, values);
    values.key[KeyIndex(shape, 0, 0, 71)] = 0x1p100F;  // +inf: NaN
    ExpectRight(problem, values);
    EXPECT_TRUE(std::isnan(Compute(problem, values).logsumexp[2]));
  }
}

TEST_F(OverflowTest, ScoresThatTheScaleCarriesBeyondFloat32AreInfinite) {
  const AttentionShape shape = {.query_length = 4, .key_length = 80, .head_dim = 1, .value_dim = 5};
  for (ElementType type : kElementTypes) {
    const auto problem = MakeProblem(shape, type, {.scale = 0x1p127F});
    ProblemValues values = Generate(problem, 10, Constant(1), Normal());
    values.key[KeyIndex(shape, 0, 0, 7)] = -4;  // -inf; all others 2^127
    ExpectRight(problem, values);
    values.key[KeyIndex(shape, 0, 0, 9)] = 4;
    ExpectRight(problem, values);
  }
}

}  // namespace
}  // namespace attend::testing
