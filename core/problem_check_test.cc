// Every illegal value of every option, one row each.
#include "core/problem_check.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/attention_problem.h"
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

struct BadCase {
  std::string field;
  std::string reason;
  std::string value;
  AttentionShape shape = SmallShape();
  AttentionOptions options = {};
  ResultSelection results = {};
  ElementType type = ElementType::kFloat32;
};

AttentionShape With(int64_t AttentionShape::*member, int64_t value) {
  AttentionShape shape = SmallShape();
  shape.*member = value;
  return shape;
}

void ExpectRefused(const std::vector<BadCase>& cases) {
  for (const BadCase& bad : cases) {
    const auto problem = AttentionProblem::Create(bad.shape, bad.type, bad.options, bad.results);
    ASSERT_EQ(problem.status().code(), absl::StatusCode::kInvalidArgument) << bad.field << " " << bad.value;
    const auto violation = GetViolation(problem.status());
    ASSERT_TRUE(violation.has_value());
    EXPECT_EQ(violation->field, bad.field);
    EXPECT_EQ(violation->reason, bad.reason);
    EXPECT_EQ(violation->value, bad.value);
    EXPECT_FALSE(violation->limit.empty());
    EXPECT_THAT(std::string(problem.status().message()), HasSubstr(bad.value));
    EXPECT_THAT(std::string(problem.status().message()), HasSubstr(bad.field));
  }
}

TEST(ProblemCheckTest, RefusesWhatIsOutOfRange) {
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
  ExpectRefused(cases);
}

TEST(ProblemCheckTest, RefusesOptionsThatMeanNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  ExpectRefused({
      {"softcap", "SOFTCAP_OUT_OF_RANGE", "-1", SmallShape(), {.softcap = -1}},
      {"softcap", "SOFTCAP_OUT_OF_RANGE", "nan", SmallShape(), {.softcap = std::nanf("")}},
      {"softcap", "SOFTCAP_OUT_OF_RANGE", "inf", SmallShape(), {.softcap = infinity}},
      {"query_offset", "QUERY_OFFSET_COUNT", "3", SmallShape(), {.query_offset = {0, 0, 0}}},
      {"window_left", "WINDOW_OUT_OF_RANGE", "-2", SmallShape(), {.window_left = -2}},
      {"window_right", "WINDOW_OUT_OF_RANGE", "-9", SmallShape(), {.window_right = -9}},
      {"alibi_slopes", "SLOPES_COUNT", "3", SmallShape(), {.alibi_slopes = {1, 1, 1}}},
      {"alibi_slopes[1]", "SLOPE_NOT_FINITE", "inf", SmallShape(), {.alibi_slopes = {1, infinity, 1, 1, 1, 1}}},
      {"alibi_slopes[5]", "SLOPE_NOT_FINITE", "nan", SmallShape(), {.alibi_slopes = {1, 1, 1, 1, 1, std::nanf("")}}},
      {"sinks", "SINKS_COUNT", "7", SmallShape(), {.sinks = {1, 1, 1, 1, 1, 1, 1}}},
      {"sinks[0]", "SINK_OUT_OF_RANGE", "inf", SmallShape(), {.sinks = {infinity, 1, 1, 1, 1, 1}}},
      {"sinks[2]", "SINK_OUT_OF_RANGE", "nan", SmallShape(), {.sinks = {1, 1, std::nanf(""), 1, 1, 1}}},
      {"output_type", "OUTPUT_TYPE_MISMATCH", "f16", SmallShape(), {.output_type = ElementType::kFloat16}},
      {"compute_type",
       "COMPUTE_TYPE_MISMATCH",
       "bf16",
       SmallShape(),
       {.compute_type = ComputeType::kBFloat16},
       {},
       ElementType::kFloat16},
      {"output_type",
       "OUTPUT_TYPE_MISMATCH",
       "bf16",
       SmallShape(),
       {.output_type = ElementType::kBFloat16},
       {},
       ElementType::kFloat16},
  });
}

TEST(ProblemCheckTest, RefusesTensorsThatCannotBeBroadcast) {
  const auto mask = [](std::vector<int64_t> shape) {
    return AttentionOptions{.mask = BroadcastTensor{.shape = std::move(shape)}};
  };
  const auto bias = [](std::vector<int64_t> shape) {
    return AttentionOptions{.bias = BroadcastTensor{.shape = std::move(shape)}};
  };
  ExpectRefused({
      {"mask.shape", "NOT_BROADCASTABLE", "of rank 0", SmallShape(), mask({})},
      {"mask.shape", "NOT_BROADCASTABLE", "of rank 1", SmallShape(), mask({7})},
      {"mask.shape", "NOT_BROADCASTABLE", "of rank 5", SmallShape(), mask({1, 2, 6, 5, 7})},
      {"mask.shape[0]", "NOT_BROADCASTABLE", "2", SmallShape(), mask({2, 7})},  // a padding mask by batch is of rank 4
      {"mask.shape[1]", "NOT_BROADCASTABLE", "5", SmallShape(), mask({5, 5})},
      {"mask.shape[0]", "NOT_BROADCASTABLE", "3", SmallShape(), mask({3, 5, 7})},  // kv_heads
      {"mask.shape[0]", "NOT_BROADCASTABLE", "-1", SmallShape(), mask({-1, 1, 1, 1})},
      {"bias.shape", "NOT_BROADCASTABLE", "of rank 1", SmallShape(), bias({7})},
      {"bias.shape[3]", "NOT_BROADCASTABLE", "8", SmallShape(), bias({2, 6, 5, 8})},
      {"bias.shape[1]", "NOT_BROADCASTABLE", "0", SmallShape(), bias({5, 0})},
  });
}

TEST(ProblemCheckTest, RefusesRowsOfNoQuery) {
  ExpectRefused({
      {"weight_query_rows[1]",
       "QUERY_ROW_OUT_OF_RANGE",
       "5",
       SmallShape(),
       {},
       {.weights = true, .weight_query_rows = {0, 5}}},
      {"weight_query_rows[0]",
       "QUERY_ROW_OUT_OF_RANGE",
       "-1",
       SmallShape(),
       {},
       {.weight_query_rows = {-1}, .scores = ScoreStage::kMasked}},
      {"weight_query_rows[2]",
       "QUERY_ROW_TWICE",
       "3",
       SmallShape(),
       {},
       {.weights = true, .weight_query_rows = {3, 1, 3}}},
  });
}

// The few rows of very many queries, that are of no bytes without a batch.
TEST(ProblemCheckTest, RefusesARowTwiceAmongManyQueries) {
  AttentionShape shape = SmallShape();
  shape.batch = 0;
  shape.query_length = int64_t{1} << 50;
  ExpectRefused({{"weight_query_rows[3]",
                  "QUERY_ROW_TWICE",
                  "1099511627776",
                  shape,
                  {},
                  {.weights = true, .weight_query_rows = {7, int64_t{1} << 40, 0, int64_t{1} << 40, 7}}}});
  EXPECT_TRUE(AttentionProblem::Create(shape, ElementType::kFloat32, {},
                                       {.weights = true, .weight_query_rows = {int64_t{1} << 40, 0}})
                  .ok());
}

AttentionOptions Ragged() { return {.layout = Layout::kTHD, .query_starts = {0, 2, 5}, .key_starts = {0, 7, 7}}; }

template <class Change>
AttentionOptions RaggedBut(Change change) {
  AttentionOptions options = Ragged();
  change(options);
  return options;
}

TEST(ProblemCheckTest, RefusesStartsThatAreNoSequences) {
  const auto starts = [](std::vector<int64_t> queries) {
    return RaggedBut([&](AttentionOptions& o) { o.query_starts = std::move(queries); });
  };
  const auto key_starts = [](std::vector<int64_t> keys) {
    return RaggedBut([&](AttentionOptions& o) { o.key_starts = std::move(keys); });
  };
  ExpectRefused({
      {"query_starts", "STARTS_COUNT", "0", SmallShape(), starts({})},
      {"query_starts", "STARTS_COUNT", "2", SmallShape(), starts({0, 5})},
      {"key_starts", "STARTS_COUNT", "4", SmallShape(), key_starts({0, 1, 2, 7})},
      {"query_starts[0]", "STARTS_OUT_OF_ORDER", "1", SmallShape(), starts({1, 2, 5})},
      {"query_starts[1]", "STARTS_OUT_OF_ORDER", "-3", SmallShape(), starts({0, -3, 5})},
      {"query_starts[2]", "STARTS_OUT_OF_ORDER", "5", SmallShape(), starts({0, 6, 5})},
      {"query_starts[2]", "STARTS_OUT_OF_ORDER", "4", SmallShape(), starts({0, 2, 4})},
      {"key_starts[2]", "STARTS_OUT_OF_ORDER", "9223372036854775807", SmallShape(), key_starts({0, 7, kLargest})},
  });
}

TEST(ProblemCheckTest, RefusesOptionsThatContradict) {
  const BroadcastTensor one = {.shape = {1, 1}};
  ExpectRefused({
      {"query_starts", "OPTIONS_CONTRADICT", "present", SmallShape(), {.query_starts = {0, 2, 5}}},
      {"key_starts", "OPTIONS_CONTRADICT", "present", SmallShape(), {.layout = Layout::kBNHD, .key_starts = {0, 2, 5}}},
      {"key_lengths", "OPTIONS_CONTRADICT", "present", SmallShape(), RaggedBut([](AttentionOptions& o) {
         o.key_lengths = {7, 7};
       })},
      {"mask", "OPTIONS_CONTRADICT", "present", SmallShape(), RaggedBut([&](AttentionOptions& o) { o.mask = one; })},
      {"bias", "OPTIONS_CONTRADICT", "present", SmallShape(), RaggedBut([&](AttentionOptions& o) { o.bias = one; })},
      {"weights", "OPTIONS_CONTRADICT", "asked for", SmallShape(), Ragged(), {.weights = true}},
      {"scores", "OPTIONS_CONTRADICT", "asked for", SmallShape(), Ragged(), {.scores = ScoreStage::kScaled}},
      {"weight_query_rows", "OPTIONS_CONTRADICT", "present", SmallShape(), {}, {.weight_query_rows = {0}}},
      {"average_weights_over_heads",
       "OPTIONS_CONTRADICT",
       "true",
       SmallShape(),
       {},
       {.average_weights_over_heads = true, .scores = ScoreStage::kScaled}},
      {"omit_output", "OPTIONS_CONTRADICT", "true", SmallShape(), {}, {.omit_output = true}},
  });
}

TEST(ProblemCheckTest, MessagesNameFieldValueAndLimit) {
  const auto problem = AttentionProblem::Create(With(&AttentionShape::head_dim, 0), ElementType::kFloat32);
  EXPECT_EQ(problem.status().message(), "head_dim is 0, must be in [1, 1024]");
}

TEST(ProblemCheckTest, RefusesSizesThatOverflow) {
  const AttentionShape good = {.batch = 1, .key_length = 1, .head_dim = 1, .value_dim = 1};
  std::vector<BadCase> cases(11, {"", "SIZE_OVERFLOW", "", good});
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
  cases[8].field = "scores";
  cases[8].shape.query_length = cases[8].shape.key_length = int64_t{1} << 31;
  cases[8].results.scores = ScoreStage::kScaled;
  cases[9].field = "output";  // fits in bf16, not in f32
  cases[9].type = ElementType::kBFloat16;
  cases[9].shape.query_length = kLargest / 4;
  cases[9].shape.value_dim = 2;
  cases[9].options.output_type = ElementType::kFloat32;
  cases[10].field = "bias";  // no bytes, yet strides that overflow
  cases[10].shape.batch = 0;
  cases[10].shape.query_length = cases[10].shape.key_length = int64_t{1} << 31;
  cases[10].options.bias = BroadcastTensor{.shape = {0, 1, int64_t{1} << 31, int64_t{1} << 31}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto problem = AttentionProblem::Create(cases[i].shape, cases[i].type, cases[i].options, cases[i].results);
    ASSERT_EQ(problem.status().code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(GetViolation(problem.status())->field, cases[i].field) << i;
    EXPECT_EQ(GetViolation(problem.status())->reason, "SIZE_OVERFLOW") << i;
  }
}

}  // namespace
}  // namespace attend::core
