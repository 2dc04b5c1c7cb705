// Small problems against a plain double loop, and numbers that are not numbers. The large suite against the oracle is
// in tests/conformance.
#include "core/tiled_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/plain_attention.h"
#include "core/tiled_attention_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

// The maximum grows far with every block of keys: what was summed before must shrink to nothing.
TEST_F(TiledAttentionTest, RescalesWhatWasSummedBeforeALargerScore) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    SCOPED_TRACE(ElementTypeName(type));
    const AttentionProblem p =
        MakeProblem({.shape = {.query_length = 1, .key_length = 700, .head_dim = 1, .value_dim = 1},
                     .type = type,
                     .options = {.scale = 1},
                     .results = {.weights = true, .logsumexp = true}});
    Inputs in(p, 1);
    in.query.Set(0, 1);
    for (int64_t j = 0; j < 700; ++j) {
      in.key.Set(j, 0.25F * static_cast<float>(j));
      in.value.Set(j, j < 512 ? 1000 : 1);
    }
    const Results out = Compute(p, in);
    ExpectCorrect(p, in, out);
    EXPECT_FLOAT_EQ(out.output.Get(0), 1);  // the first two blocks weigh less than exp(-46)
  }
}

TEST_F(TiledAttentionTest, AgreesWithThePlainLoop) {
  const CausalAlignment alignments[] = {CausalAlignment::kNone, CausalAlignment::kTopLeft,
                                        CausalAlignment::kBottomRight};
  const ElementType types[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};
  struct Lengths {
    int64_t queries, keys;
  };
  const Lengths lengths[] = {{1, 1}, {5, 3}, {16, 64}, {33, 65}, {64, 63}, {130, 257}, {257, 130}, {3, 513}, {300, 1}};
  struct Dims {
    int64_t head, value;
  };
  const Dims dims[] = {{1, 1}, {3, 16}, {16, 3}, {33, 80}, {64, 64}, {80, 112}};
  int n = 0;
  for (const Lengths& l : lengths) {
    for (const Dims& d : dims) {
      const CausalAlignment causal = alignments[n % 3];
      const ElementType type = types[n / 3 % 3];
      const Layout layout = n % 2 == 0 ? Layout::kBHND : Layout::kBNHD;
      const int64_t group = n % 4 + 1;
      ++n;
      AttentionOptions options = {.layout = layout, .causal = causal};
      if (n % 5 == 0) options.key_lengths = {l.keys / 2, l.keys};
      const Case c = {.shape = {.batch = 2,
                                .query_heads = 2 * group,
                                .kv_heads = 2,
                                .query_length = l.queries,
                                .key_length = l.keys,
                                .head_dim = d.head,
                                .value_dim = d.value},
                      .type = type,
                      .options = options,
                      .results = {.weights = true, .logsumexp = true}};
      SCOPED_TRACE(absl::StrCat("queries ", l.queries, " keys ", l.keys, " dims ", d.head, " ", d.value, " causal ",
                                static_cast<int>(causal), " ", std::string(ElementTypeName(type)), " group ", group,
                                " layout ", static_cast<int>(layout)));
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 17 + n);
      ExpectCorrect(problem, inputs, Compute(problem, inputs, 1 + n % 2));
      if (HasFatalFailure()) return;
    }
  }
}

bool SameBits(const float* a, const float* b, int64_t count) { return std::memcmp(a, b, count * sizeof(float)) == 0; }

// Of two heads of 300 queries, those from `poisoned` on see NaN; the others have the bits of `clean`.
void ExpectSeenFrom(int64_t poisoned, const Results& dirty, const Results& clean) {
  const std::vector<float> output = dirty.output.Numbers();
  const std::vector<float> clean_output = clean.output.Numbers();
  for (int64_t row = 0; row < 2 * 300; ++row) {
    SCOPED_TRACE(absl::StrCat("poison ", poisoned, " head ", row / 300, " query ", row % 300));
    const bool sees = row % 300 >= poisoned;
    EXPECT_EQ(std::isnan(dirty.logsumexp[row]), sees);
    if (sees) {
      for (int64_t d = 0; d < 64; ++d) ASSERT_TRUE(std::isnan(output[row * 64 + d]));
    } else {
      ASSERT_TRUE(SameBits(&output[row * 64], &clean_output[row * 64], 64));
      ASSERT_TRUE(SameBits(&dirty.weights[row * 300], &clean.weights[row * 300], 300));
    }
  }
}

// Whatever lies in keys and values that a query does not see, it keeps its bits.
TEST_F(TiledAttentionTest, WhatAQueryDoesNotSeeChangesNoBitOfIt) {
  const float poisons[] = {kNan, kInfinity, -kInfinity};
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
    for (const int64_t poisoned : {0, 5, 64, 130, 255, 256, 290}) {
      Case c = Causal(300, 300, CausalAlignment::kTopLeft);
      c.type = type;
      c.results = {.weights = true, .logsumexp = true};
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 8);
      const Results clean = Compute(problem, inputs);
      for (int64_t d = 0; d < 64; d += 3) {
        inputs.key.Set(poisoned * 64 + d, poisons[d % 2]);
        inputs.value.Set(poisoned * 64 + d, poisons[d % 3]);
      }
      ExpectSeenFrom(poisoned, Compute(problem, inputs, 2), clean);
    }
  }
}

// Only the element whose value is infinite or NaN, and only in rows that see it.
TEST_F(TiledAttentionTest, AValueThatIsNotFiniteReachesItsElementOfTheRowsThatSeeIt) {
  const AttentionProblem problem = MakeProblem(Causal(130, 130, CausalAlignment::kTopLeft));
  Inputs inputs(problem, 9);
  const Results clean = Compute(problem, inputs);
  inputs.value.Set(70 * 64 + 3, kInfinity);
  inputs.value.Set(90 * 64 + 4, kNan);
  const Results dirty = Compute(problem, inputs);
  for (int64_t at = 0; at < 2 * 130 * 64; ++at) {
    const int64_t i = at / 64 % 130;
    const int64_t d = at % 64;
    const float value = dirty.output.Get(at);
    if (d == 3 && i >= 70) {
      ASSERT_EQ(value, kInfinity) << i;
    } else if (d == 4 && i >= 90) {
      ASSERT_TRUE(std::isnan(value)) << i;
    } else {
      ASSERT_EQ(value, clean.output.Get(at)) << i << " " << d;
    }
  }
}

TEST_F(TiledAttentionTest, RowsOfNothingFiniteAreNan) {
  Case c = Causal(2, 70, CausalAlignment::kNone, 16);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 10);
  for (int64_t j = 0; j < 70; ++j) inputs.key.Set(j * 16, -kInfinity);
  for (int64_t i = 0; i < 4; ++i) inputs.query.Set(i * 16, i < 2 ? 1.0f : -1.0f);  // scores -inf in head 0, +inf in 1
  const Results results = Compute(problem, inputs);
  for (int64_t i = 0; i < results.output.size(); ++i) ASSERT_TRUE(std::isnan(results.output.Get(i))) << i;
  for (const float w : results.weights) ASSERT_TRUE(std::isnan(w));
  for (const float l : results.logsumexp) ASSERT_TRUE(std::isnan(l));
}

// Scores near the largest float are numbers: equal ones get equal weights.
TEST_F(TiledAttentionTest, HugeScoresAreOrdinary) {
  for (const float scale : {1e30f, -1e30f}) {
    Case c = Causal(1, 300, CausalAlignment::kNone, 16);
    c.options.scale = scale;
    c.results.weights = true;
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 11);
    for (int64_t i = 0; i < inputs.query.size(); ++i) inputs.query.Set(i, i % 16 == 0 ? 1e4f : 0);
    for (int64_t j = 0; j < inputs.key.size(); ++j) inputs.key.Set(j, 3e4f);
    const Results results = Compute(problem, inputs);
    for (const float w : results.weights) ASSERT_NEAR(w, 1.0f / 300, 1e-9);
  }
}

TEST_F(TiledAttentionTest, QueriesWithoutKeysGetExactZeros) {
  Case c = Causal(40, 20, CausalAlignment::kBottomRight);
  c.shape.batch = 3;
  c.options.key_lengths = {20, 0, 7};
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 12);
  for (int64_t i = 0; i < inputs.value.size(); ++i) inputs.value.Set(i, i % 9 == 0 ? kNan : 1.0f);
  const Results results = Compute(problem, inputs, 2);
  int empty = 0;
  for (int64_t row = 0; row < 3 * 2 * 40; ++row) {
    if (problem.VisibleKeys(row / 80, row % 40).end > 0) continue;
    ++empty;
    ASSERT_EQ(results.logsumexp[row], -kInfinity);
    for (int64_t j = 0; j < 20; ++j) ASSERT_EQ(results.weights[row * 20 + j], 0);
    for (int64_t d = 0; d < 64; ++d) ASSERT_EQ(results.output.Get(row * 64 + d), 0);
  }
  EXPECT_EQ(empty, 2 * (20 + 40 + 33));
}

TEST_F(TiledAttentionTest, NoKeysAtAll) {
  Case c = Causal(5, 0, CausalAlignment::kNone);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 13);
  const Results results = Compute(problem, inputs, 2);
  for (int64_t i = 0; i < results.output.size(); ++i) ASSERT_EQ(results.output.Get(i), 0);
  for (const float l : results.logsumexp) ASSERT_EQ(l, -kInfinity);
}

}  // namespace
}  // namespace attend::core
