#include "core/attention_problem.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

AttentionShape SmallShape() {
  return {
      .batch = 2, .query_heads = 6, .kv_heads = 3, .query_length = 5, .key_length = 7, .head_dim = 4, .value_dim = 9};
}

AttentionProblem MustCreate(const AttentionShape& shape, AttentionOptions options = {}, ResultSelection results = {},
                            ElementType type = ElementType::kFloat32) {
  auto problem = AttentionProblem::Create(shape, type, std::move(options), std::move(results));
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

AttentionShape With(int64_t AttentionShape::*member, int64_t value) {
  AttentionShape shape = SmallShape();
  shape.*member = value;
  return shape;
}

TEST(AttentionProblemTest, EveryOptionTogetherIsLegal) {
  const AttentionProblem problem =
      MustCreate(SmallShape(),
                 {.scale = 0.0f,
                  .softcap = 3e38f,
                  .causal = CausalAlignment::kBottomRight,
                  .query_offset = {std::numeric_limits<int64_t>::min(), kLargest},
                  .window_left = kLargest,
                  .window_right = 0,
                  .key_lengths = {7, 0},
                  .mask = BroadcastTensor{.shape = {2, 1, 1, 7}},
                  .bias = BroadcastTensor{.shape = {6, 5, 1}, .type = ElementType::kFloat16},
                  .alibi_slopes = {0, -1, 2, 3, 4, 5},
                  .sinks = {0, -std::numeric_limits<float>::infinity(), 3e38f, 0, 0, 0},
                  .compute_type = ComputeType::kBFloat16,
                  .output_type = ElementType::kFloat32},
                 {.weights = true,
                  .weight_query_rows = {4, 0},
                  .average_weights_over_heads = true,
                  .scores = ScoreStage::kMasked,
                  .logsumexp = true,
                  .omit_output = true},
                 ElementType::kBFloat16);
  EXPECT_EQ(problem.WeightRows(), 2);
  EXPECT_EQ(problem.WeightsBytes(), 2 * 2 * 7 * 4);
  EXPECT_EQ(problem.ScoresBytes(), 2 * 6 * 2 * 7 * 4);
  EXPECT_EQ(problem.OutputBytes(), 0);
  EXPECT_EQ(problem.MaskBytes(), 14);
  EXPECT_EQ(problem.BiasBytes(), 60);
  EXPECT_EQ(problem.output_type(), ElementType::kFloat32);
}

TEST(AttentionProblemTest, TheLargestSizeThatFitsIsAccepted) {
  AttentionShape shape = {.query_length = kLargest / 2, .key_length = 0, .head_dim = 1, .value_dim = 1};
  const AttentionProblem problem = MustCreate(shape, {}, {}, ElementType::kBFloat16);
  EXPECT_EQ(problem.QueryBytes(), kLargest - 1);
  EXPECT_EQ(problem.MultiplyAdds(), 0);
}

TEST(AttentionProblemTest, ZeroLengthsAndBatchAreLegalHoweverManyOthers) {
  for (const Layout layout : {Layout::kBHND, Layout::kBNHD}) {
    AttentionShape shape = SmallShape();
    shape.batch = kHuge;
    shape.query_length = shape.key_length = 0;
    const AttentionProblem empty = MustCreate(shape, {.layout = layout, .causal = CausalAlignment::kBottomRight},
                                              {.weights = true, .logsumexp = true});
    EXPECT_EQ(empty.QueryBytes() + empty.KeyBytes() + empty.ValueBytes() + empty.OutputBytes(), 0);
    EXPECT_EQ(empty.WeightsBytes() + empty.LogsumexpBytes(), 0);
    EXPECT_EQ(empty.MultiplyAdds(), 0);
    EXPECT_EQ(MustCreate(With(&AttentionShape::batch, 0), {.layout = layout}).MultiplyAdds(), 0);
  }
}

TEST(AttentionProblemTest, ScaleDefaultsToOneOverRootOfHeadDim) {
  EXPECT_FLOAT_EQ(MustCreate(SmallShape()).scale(), 0.5f);
  EXPECT_FLOAT_EQ(MustCreate(With(&AttentionShape::head_dim, 80)).scale(), 0.11180340f);
  EXPECT_EQ(MustCreate(SmallShape(), {.scale = 0.0f}).scale(), 0.0f);
  EXPECT_EQ(MustCreate(SmallShape(), {.scale = -2.5f}).scale(), -2.5f);
}

TEST(AttentionProblemTest, BytesAndStridesOfBothLayouts) {
  const ResultSelection all = {.weights = true, .logsumexp = true};
  const AttentionProblem heads_first = MustCreate(SmallShape(), {}, all, ElementType::kFloat16);
  const AttentionProblem length_first = MustCreate(SmallShape(), {.layout = Layout::kBNHD}, all, ElementType::kFloat16);
  for (const AttentionProblem* problem : {&heads_first, &length_first}) {
    EXPECT_EQ(problem->QueryBytes(), 2 * 6 * 5 * 4 * 2);
    EXPECT_EQ(problem->KeyBytes(), 2 * 3 * 7 * 4 * 2);
    EXPECT_EQ(problem->ValueBytes(), 2 * 3 * 7 * 9 * 2);
    EXPECT_EQ(problem->OutputBytes(), 2 * 6 * 5 * 9 * 2);
    EXPECT_EQ(problem->WeightsBytes(), 2 * 6 * 5 * 7 * 4);
    EXPECT_EQ(problem->LogsumexpBytes(), 2 * 6 * 5 * 4);
    EXPECT_EQ(problem->group_size(), 2);
  }
  const auto expect_strides = [](const Strides& strides, int64_t batch, int64_t head, int64_t row) {
    EXPECT_EQ(strides.batch, batch);
    EXPECT_EQ(strides.head, head);
    EXPECT_EQ(strides.row, row);
  };
  expect_strides(heads_first.QueryStrides(), 6 * 5 * 4, 5 * 4, 4);
  expect_strides(heads_first.KeyStrides(), 3 * 7 * 4, 7 * 4, 4);
  expect_strides(heads_first.ValueStrides(), 3 * 7 * 9, 7 * 9, 9);
  expect_strides(heads_first.OutputStrides(), 6 * 5 * 9, 5 * 9, 9);
  expect_strides(length_first.QueryStrides(), 6 * 5 * 4, 4, 6 * 4);
  expect_strides(length_first.KeyStrides(), 3 * 7 * 4, 4, 3 * 4);
  expect_strides(length_first.ValueStrides(), 3 * 7 * 9, 9, 3 * 9);
  expect_strides(length_first.OutputStrides(), 6 * 5 * 9, 9, 6 * 9);
  EXPECT_EQ(MustCreate(SmallShape()).WeightsBytes(), 0);
  EXPECT_EQ(MustCreate(SmallShape()).LogsumexpBytes(), 0);
}

// The definition, key by key: what a row of "Masks" says of key j.
bool SeesByPosition(const AttentionProblem& problem, int64_t b, int64_t i, int64_t j) {
  const AttentionOptions& options = problem.options();
  const int64_t position = i + problem.QueryOffset(b);
  if (options.causal != CausalAlignment::kNone && j > position) return false;
  if (options.window_left >= 0 && j < position - options.window_left) return false;
  return options.window_right < 0 || j <= position + options.window_right;
}

void ExpectGeometryByTheDefinition(const AttentionProblem& problem) {
  int64_t pairs = 0;
  for (int64_t b = 0; b < problem.shape().batch; ++b) {
    KeyRange seen = {.begin = problem.KeyCount(b), .end = 0};
    for (int64_t i = 0; i < problem.QueryCount(b); ++i) {
      const KeyRange range = problem.VisibleKeys(b, i);
      ASSERT_LE(0, range.begin);
      ASSERT_LE(range.begin, range.end);
      ASSERT_LE(range.end, problem.KeyCount(b));
      for (int64_t j = 0; j < problem.KeyCount(b); ++j) {
        ASSERT_EQ(j >= range.begin && j < range.end, SeesByPosition(problem, b, i, j)) << b << " " << i << " " << j;
      }
      pairs += range.count();
      if (range.count() == 0) continue;
      seen = {.begin = std::min(seen.begin, range.begin), .end = std::max(seen.end, range.end)};
    }
    const KeyRange all = problem.SeenKeys(b);
    ASSERT_EQ(all.count(), std::max<int64_t>(0, seen.end - seen.begin));
    if (all.count() > 0) {
      ASSERT_EQ(all.begin, seen.begin);
    }
  }
  ASSERT_EQ(problem.MultiplyAdds(), pairs * 6 * (4 + 9));
}

TEST(AttentionProblemTest, VisibleKeysAndWorkFollowTheDefinition) {
  for (const CausalAlignment causal :
       {CausalAlignment::kNone, CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    for (int64_t query_length = 0; query_length <= 6; ++query_length) {
      for (int64_t keys = 0; keys <= 6; ++keys) {
        SCOPED_TRACE(::testing::Message() << query_length << " queries, " << keys << " keys");
        const AttentionShape shape = With(&AttentionShape::query_length, query_length);
        const AttentionProblem problem = MustCreate(shape, {.causal = causal, .key_lengths = {keys, 7}});
        EXPECT_EQ(problem.QueryOffset(0), causal == CausalAlignment::kBottomRight ? keys - query_length : 0);
        ExpectGeometryByTheDefinition(problem);
      }
    }
  }
}

// With the offsets and lengths that a window can be combined with.
void ExpectWindowByTheDefinition(AttentionOptions options) {
  ExpectGeometryByTheDefinition(MustCreate(SmallShape(), options));
  options.key_lengths = {3, 6};
  ExpectGeometryByTheDefinition(MustCreate(SmallShape(), options));
  for (int64_t offset = -10; offset <= 12; ++offset) {
    options.query_offset = {offset, -offset};
    ExpectGeometryByTheDefinition(MustCreate(SmallShape(), options));
  }
}

TEST(AttentionProblemTest, WindowsAndOffsetsFollowTheDefinition) {
  for (const CausalAlignment causal : {CausalAlignment::kNone, CausalAlignment::kBottomRight}) {
    for (int64_t left = -1; left <= 4; ++left) {
      for (int64_t right = -1; right <= 4; ++right) {
        SCOPED_TRACE(::testing::Message() << "window " << left << " " << right);
        ExpectWindowByTheDefinition({.causal = causal, .window_left = left, .window_right = right});
      }
    }
  }
}

// Positions that int64 does not hold: as if it did.
TEST(AttentionProblemTest, OffsetsAndWindowsOfAnySizeAreExact) {
  constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
  const auto range = [](AttentionOptions options, int64_t i) {
    options.query_offset.push_back(0);
    return MustCreate(SmallShape(), options).VisibleKeys(0, i);
  };
  const auto expect = [](KeyRange got, int64_t begin, int64_t end) {
    EXPECT_EQ(got.begin, begin);
    EXPECT_EQ(got.end, end);
  };
  expect(range({.causal = CausalAlignment::kTopLeft, .query_offset = {kLargest}}, 4), 0, 7);
  expect(range({.causal = CausalAlignment::kTopLeft, .query_offset = {kSmallest}}, 4), 0, 0);
  expect(range({.query_offset = {kLargest}, .window_left = kLargest}, 4), 4, 7);
  expect(range({.query_offset = {kLargest}, .window_left = 9}, 4), 7, 7);
  expect(range({.query_offset = {kSmallest}, .window_right = kLargest}, 0), 0, 0);
  expect(range({.query_offset = {kSmallest + 2}, .window_right = kLargest}, 3), 0, 5);
  expect(range({.query_offset = {0}, .window_left = kLargest, .window_right = kLargest}, 3), 0, 7);
  AttentionShape shape = SmallShape();
  shape.query_length = kLargest / 1000;
  shape.query_heads = shape.kv_heads = 1;
  EXPECT_EQ(
      MustCreate(shape, {.query_offset = {kLargest, kSmallest}, .window_left = 3, .window_right = 3}).MultiplyAdds(),
      0);
}

TEST(AttentionProblemTest, SequencesOfARaggedBatch) {
  AttentionShape shape = SmallShape();
  shape.batch = 4;
  shape.query_length = 9;
  shape.key_length = 12;
  const AttentionOptions options = {.layout = Layout::kTHD,
                                    .causal = CausalAlignment::kBottomRight,
                                    .window_left = 2,
                                    .query_starts = {0, 3, 3, 8, 9},
                                    .key_starts = {0, 4, 6, 12, 12}};
  const AttentionProblem problem = MustCreate(shape, options, {.logsumexp = true});
  ExpectGeometryByTheDefinition(problem);
  const int64_t queries[] = {3, 0, 5, 1};
  const int64_t keys[] = {4, 2, 6, 0};
  for (int64_t b = 0; b < 4; ++b) {
    EXPECT_EQ(problem.QueryCount(b), queries[b]);
    EXPECT_EQ(problem.KeyCount(b), keys[b]);
    EXPECT_EQ(problem.QueryOffset(b), keys[b] - queries[b]);
  }
  EXPECT_EQ(problem.QueryBytes(), 9 * 6 * 4 * 4);
  EXPECT_EQ(problem.KeyBytes(), 12 * 3 * 4 * 4);
  EXPECT_EQ(problem.ValueBytes(), 12 * 3 * 9 * 4);
  EXPECT_EQ(problem.OutputBytes(), 9 * 6 * 9 * 4);
  EXPECT_EQ(problem.LogsumexpBytes(), 9 * 6 * 4);
  EXPECT_EQ(problem.QueryIndex(2, 5, 1), ((3 + 1) * 6 + 5) * 4);
  EXPECT_EQ(problem.KeyIndex(2, 1, 3), ((6 + 3) * 3 + 1) * 4);
  EXPECT_EQ(problem.ValueIndex(2, 1, 3), ((6 + 3) * 3 + 1) * 9);
  EXPECT_EQ(problem.OutputIndex(3, 2, 0), ((8 + 0) * 6 + 2) * 9);
  EXPECT_EQ(problem.LogsumexpIndex(2, 5, 1), 5 * 9 + 3 + 1);
  EXPECT_EQ(MustCreate(SmallShape(), {.layout = Layout::kBNHD}).QueryIndex(1, 5, 2), ((1 * 5 + 2) * 6 + 5) * 4);
  EXPECT_EQ(MustCreate(SmallShape()).LogsumexpIndex(1, 5, 2), (1 * 6 + 5) * 5 + 2);
}

TEST(AttentionProblemTest, AnEmptyRaggedBatchIsLegal) {
  AttentionShape shape = SmallShape();
  shape.batch = shape.query_length = shape.key_length = 0;
  const AttentionOptions options = {.layout = Layout::kTHD, .query_starts = {0}, .key_starts = {0}};
  EXPECT_EQ(MustCreate(shape, options).MultiplyAdds(), 0);
}

TEST(AttentionProblemTest, BroadcastTensorsStepOverAxesOfOne) {
  const auto strides = [](std::vector<int64_t> shape) {
    return MustCreate(SmallShape(), {.mask = BroadcastTensor{.shape = std::move(shape)}}).MaskStrides();
  };
  const auto expect = [](const BroadcastStrides& s, int64_t batch, int64_t head, int64_t query, int64_t key) {
    EXPECT_EQ(s.batch, batch);
    EXPECT_EQ(s.head, head);
    EXPECT_EQ(s.query, query);
    EXPECT_EQ(s.key, key);
  };
  expect(strides({5, 7}), 0, 0, 7, 1);
  expect(strides({1, 7}), 0, 0, 0, 1);
  expect(strides({5, 1}), 0, 0, 1, 0);
  expect(strides({6, 5, 7}), 0, 35, 7, 1);
  expect(strides({6, 1, 7}), 0, 7, 0, 1);
  expect(strides({2, 1, 1, 7}), 7, 0, 0, 1);
  expect(strides({2, 6, 5, 7}), 210, 35, 7, 1);
  expect(strides({2, 6, 1, 1}), 6, 1, 0, 0);
  expect(MustCreate(SmallShape()).BiasStrides(), 0, 0, 0, 0);
}

TEST(AttentionProblemTest, WorkOfLikeBatchElementsIsMultiplied) {
  const AttentionOptions causal = {.causal = CausalAlignment::kBottomRight};
  AttentionOptions spelled_out = causal;
  spelled_out.key_lengths = {7, 7};
  EXPECT_EQ(MustCreate(SmallShape(), causal).MultiplyAdds(), MustCreate(SmallShape(), spelled_out).MultiplyAdds());
  EXPECT_GT(MustCreate(SmallShape(), causal).MultiplyAdds(), 0);
}

TEST(AttentionProblemTest, WorkSaturates) {
  AttentionShape shape = {.query_length = kHuge, .key_length = kHuge, .head_dim = 64, .value_dim = 64};
  for (const CausalAlignment causal :
       {CausalAlignment::kNone, CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    EXPECT_EQ(MustCreate(shape, {.causal = causal}).MultiplyAdds(), kLargest);
    EXPECT_EQ(MustCreate(shape, {.causal = causal, .key_lengths = {kHuge}}).MultiplyAdds(), kLargest);
    EXPECT_EQ(MustCreate(shape, {.causal = causal, .key_lengths = {0}}).MultiplyAdds(), 0);
  }
}

}  // namespace
}  // namespace attend::core
