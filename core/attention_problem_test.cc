#include "core/attention_problem.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/violation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHuge = int64_t{1} << 40;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

AttentionShape SmallShape() {
  return {
      .batch = 2, .query_heads = 6, .kv_heads = 3, .query_length = 5, .key_length = 7, .head_dim = 4, .value_dim = 9};
}

AttentionProblem MustCreate(const AttentionShape& shape, AttentionOptions options = {}, ResultSelection results = {},
                            ElementType type = ElementType::kFloat32) {
  auto problem = AttentionProblem::Create(shape, type, std::move(options), results);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

struct BadCase {
  std::string field;
  std::string reason;
  std::string value;
  AttentionShape shape = SmallShape();
  AttentionOptions options = {};
  ResultSelection results = {};
};

AttentionShape With(int64_t AttentionShape::*member, int64_t value) {
  AttentionShape shape = SmallShape();
  shape.*member = value;
  return shape;
}

TEST(AttentionProblemTest, RefusesWhatIsOutOfRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<BadCase> cases = {
      {"batch", "LENGTH_OUT_OF_RANGE", "-1", With(&AttentionShape::batch, -1)},
      {"query_heads", "HEADS_OUT_OF_RANGE", "0", With(&AttentionShape::query_heads, 0)},
      {"kv_heads", "HEADS_OUT_OF_RANGE", "0", With(&AttentionShape::kv_heads, 0)},
      {"kv_heads", "HEADS_OUT_OF_RANGE", "-3", With(&AttentionShape::kv_heads, -3)},
      {"query_heads", "HEADS_NOT_DIVISIBLE", "6", With(&AttentionShape::kv_heads, 4)},
      {"query_heads", "HEADS_NOT_DIVISIBLE", "6", With(&AttentionShape::kv_heads, 12)},
      {"query_length", "LENGTH_OUT_OF_RANGE", "-1", With(&AttentionShape::query_length, -1)},
      {"key_length", "LENGTH_OUT_OF_RANGE", "-9223372036854775808",
       With(&AttentionShape::key_length, std::numeric_limits<int64_t>::min())},
      {"head_dim", "DIM_OUT_OF_RANGE", "0", With(&AttentionShape::head_dim, 0)},
      {"head_dim", "DIM_OUT_OF_RANGE", "1025", With(&AttentionShape::head_dim, 1025)},
      {"value_dim", "DIM_OUT_OF_RANGE", "-1", With(&AttentionShape::value_dim, -1)},
      {"value_dim", "DIM_OUT_OF_RANGE", "1025", With(&AttentionShape::value_dim, 1025)},
      {"scale", "SCALE_NOT_FINITE", "nan", SmallShape(), {.scale = std::nanf("")}},
      {"scale", "SCALE_NOT_FINITE", "-inf", SmallShape(), {.scale = -infinity}},
      {"key_lengths", "KEY_LENGTHS_COUNT", "1", SmallShape(), {.key_lengths = {7}}},
      {"key_lengths", "KEY_LENGTHS_COUNT", "3", SmallShape(), {.key_lengths = {7, 7, 7}}},
      {"key_lengths[1]", "KEY_LENGTH_OUT_OF_RANGE", "8", SmallShape(), {.key_lengths = {7, 8}}},
      {"key_lengths[0]", "KEY_LENGTH_OUT_OF_RANGE", "-1", SmallShape(), {.key_lengths = {-1, 8}}},
  };
  for (const BadCase& bad : cases) {
    const auto problem = AttentionProblem::Create(bad.shape, ElementType::kFloat32, bad.options, bad.results);
    ASSERT_EQ(problem.status().code(), absl::StatusCode::kInvalidArgument) << bad.field << " " << bad.value;
    const auto violation = GetViolation(problem.status());
    ASSERT_TRUE(violation.has_value());
    EXPECT_EQ(violation->field, bad.field);
    EXPECT_EQ(violation->reason, bad.reason);
    EXPECT_EQ(violation->value, bad.value);
    EXPECT_FALSE(violation->limit.empty());
    EXPECT_THAT(std::string(problem.status().message()), HasSubstr(bad.value));
  }
}

TEST(AttentionProblemTest, MessagesNameFieldValueAndLimit) {
  const auto problem = AttentionProblem::Create(With(&AttentionShape::head_dim, 0), ElementType::kFloat32);
  EXPECT_EQ(problem.status().message(), "head_dim is 0, must be in [1, 1024]");
}

TEST(AttentionProblemTest, RefusesSizesThatOverflow) {
  const AttentionShape good = {.batch = 1, .key_length = 1, .head_dim = 1, .value_dim = 1};
  std::vector<BadCase> cases(8, {"", "SIZE_OVERFLOW", "", good});
  cases[0].field = "query";
  cases[0].shape.query_length = kLargest;
  cases[1].field = "key";
  cases[1].shape.key_length = kLargest / 4 + 1;
  cases[2].field = "value";
  cases[2].shape.key_length = kLargest / 4;
  cases[2].shape.value_dim = 2;
  cases[3].field = "output";
  cases[3].shape.query_length = kLargest / 4;
  cases[3].shape.value_dim = 1024;
  cases[4].field = "weights";  // 2^31 queries and keys: small tensors, huge weights
  cases[4].shape.query_length = cases[4].shape.key_length = int64_t{1} << 31;
  cases[4].results.weights = true;
  cases[5].field = "query";  // no bytes, yet strides that overflow
  cases[5].shape.batch = 0;
  cases[5].shape.query_length = kLargest / 2;
  cases[6].field = "query";
  cases[6].shape.query_length = 0;
  cases[6].shape.query_heads = cases[6].shape.kv_heads = kLargest / 2;
  cases[7].field = "query";  // more heads than can be counted
  cases[7].shape.query_length = 0;
  cases[7].shape.batch = cases[7].shape.query_heads = kHuge;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto problem =
        AttentionProblem::Create(cases[i].shape, ElementType::kFloat32, cases[i].options, cases[i].results);
    ASSERT_EQ(problem.status().code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(GetViolation(problem.status())->field, cases[i].field) << i;
    EXPECT_EQ(GetViolation(problem.status())->reason, "SIZE_OVERFLOW") << i;
  }
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

// The definition, counted key by key.
int64_t CountVisibleKeys(const AttentionProblem& problem, int64_t b, int64_t i) {
  int64_t visible = 0;
  for (int64_t j = 0; j < problem.KeyCount(b); ++j) {
    if (problem.options().causal == CausalAlignment::kNone || j <= i + problem.QueryOffset(b)) ++visible;
  }
  return visible;
}

void ExpectWorkByTheDefinition(const AttentionProblem& problem) {
  int64_t pairs = 0;
  for (int64_t b = 0; b < problem.shape().batch; ++b) {
    for (int64_t i = 0; i < problem.shape().query_length; ++i) {
      ASSERT_EQ(problem.VisibleKeyEnd(b, i), CountVisibleKeys(problem, b, i)) << b << " " << i;
      pairs += problem.VisibleKeyEnd(b, i);
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
        ExpectWorkByTheDefinition(problem);
      }
    }
  }
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
