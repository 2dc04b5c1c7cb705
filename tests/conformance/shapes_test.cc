// Every shape at which a tile can go wrong: dims, lengths around the borders of tiles, heads, batches.
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionShape;
using core::CausalAlignment;

class ShapesTest : public ConformanceOfType {};
INSTANTIATE_TEST_SUITE_P(ElementTypes, ShapesTest, ::testing::ValuesIn(kElementTypes), TypeName);

// A few milliseconds of the oracle for each of very many problems.
constexpr int64_t kSmallOracleWork = int64_t{1} << 17;

TEST_P(ShapesTest, Dims) {
  constexpr std::pair<int, int> kDims[] = {{1, 1},     {3, 3},     {33, 33},   {80, 80},     {96, 96},     {112, 112},
                                           {160, 160}, {576, 512}, {512, 576}, {1024, 1024}, {1, 1024},    {1024, 1},
                                           {64, 128},  {128, 64},  {5, 7},     {17, 16},     {1023, 1022}, {15, 31}};
  uint64_t seed = 100;
  for (const auto& [head_dim, value_dim] : kDims) {
    for (CausalAlignment causal : kCausalAlignments) {
      const AttentionShape shape = {.query_heads = 2,
                                    .kv_heads = 1,
                                    .query_length = 35,
                                    .key_length = 70,
                                    .head_dim = head_dim,
                                    .value_dim = value_dim};
      const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
      ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
    }
  }
}

// The same on more keys than a key block.
TEST_P(ShapesTest, DimsOverSeveralKeyBlocks) {
  constexpr std::pair<int, int> kDims[] = {{1, 3}, {33, 80}, {112, 96}, {576, 512}};
  uint64_t seed = 200;
  for (const auto& [head_dim, value_dim] : kDims) {
    const AttentionShape shape = {
        .query_length = 150, .key_length = 1100, .head_dim = head_dim, .value_dim = value_dim};
    const auto problem = MakeProblem(shape, GetParam(), {.causal = CausalAlignment::kBottomRight});
    ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 22);
  }
}

constexpr int64_t kLengths[] = {0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025};

TEST_P(ShapesTest, EqualLengths) {
  uint64_t seed = 300;
  for (int64_t length : kLengths) {
    for (CausalAlignment causal : kCausalAlignments) {
      const AttentionShape shape = {.query_length = length, .key_length = length, .head_dim = 24, .value_dim = 20};
      const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
      ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
    }
  }
}

// Every pair of lengths that differ, with both corners in turn, and neither.
TEST_P(ShapesTest, UnequalLengths) {
  uint64_t seed = 1000;
  for (int64_t query_length : kLengths) {
    for (int64_t key_length : kLengths) {
      if (query_length == key_length) continue;
      for (CausalAlignment causal : {CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
        const AttentionShape shape = {
            .query_length = query_length, .key_length = key_length, .head_dim = 16, .value_dim = 8};
        const bool full = seed % 7 == 0;
        const auto problem = MakeProblem(shape, GetParam(), {.causal = full ? CausalAlignment::kNone : causal});
        ExpectRight(problem, Generate(problem, ++seed), kSmallOracleWork);
      }
    }
  }
}

TEST_P(ShapesTest, Heads) {
  constexpr std::pair<int, int> kHeads[] = {{1, 1}, {2, 1}, {7, 1}, {8, 1}, {4, 2}, {14, 2}, {24, 3}, {5, 5}, {32, 1}};
  uint64_t seed = 2000;
  for (const auto& [query_heads, kv_heads] : kHeads) {
    for (const auto& [query_length, key_length] : {std::pair(1, 40), std::pair(19, 19), std::pair(70, 530)}) {
      const AttentionShape shape = {.batch = 2,
                                    .query_heads = query_heads,
                                    .kv_heads = kv_heads,
                                    .query_length = query_length,
                                    .key_length = key_length,
                                    .head_dim = 16,
                                    .value_dim = 24};
      const auto problem = MakeProblem(shape, GetParam(), {.causal = CausalAlignment::kBottomRight});
      ExpectRight(problem, Generate(problem, ++seed), int64_t{1} << 20);
    }
  }
}

TEST_P(ShapesTest, Batches) {
  uint64_t seed = 3000;
  for (int64_t batch : {0, 1, 3, 50}) {
    const AttentionShape shape = {.batch = batch,
                                  .query_heads = 2,
                                  .kv_heads = 2,
                                  .query_length = 20,
                                  .key_length = 33,
                                  .head_dim = 16,
                                  .value_dim = 16};
    const auto problem = MakeProblem(shape, GetParam());
    ExpectRight(problem, Generate(problem, ++seed));
  }
}

TEST_P(ShapesTest, LongSequences) {
  const AttentionShape shape = {
      .query_heads = 2, .kv_heads = 1, .query_length = 2050, .key_length = 4096, .head_dim = 64, .value_dim = 64};
  for (CausalAlignment causal : {CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    const auto problem = MakeProblem(shape, GetParam(), {.causal = causal}, {.logsumexp = true});
    ExpectRight(problem, Generate(problem, 4000), int64_t{1} << 22);
  }
}

}  // namespace
}  // namespace attend::testing
