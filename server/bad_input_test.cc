// Every kind of bad request: the field, reason, value and limit it is refused with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/violation.h"
#include "server/attend_codec.h"
#include "server/codec_requests.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

struct BadInput {
  const char* name;
  Change change;
  core::Violation violation;
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

class BadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsRefusedWithFieldReasonValueAndLimit) {
  const absl::Status status = DecodeChanged(GetParam().change).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  ASSERT_TRUE(violation.has_value()) << status;
  EXPECT_EQ(violation->field, GetParam().violation.field);
  EXPECT_EQ(violation->reason, GetParam().violation.reason);
  EXPECT_EQ(violation->value, GetParam().violation.value);
  EXPECT_EQ(violation->limit, GetParam().violation.limit);
  // Whoever reads only the message finds the same there.
  EXPECT_THAT(std::string(status.message()), HasSubstr(violation->field));
  EXPECT_THAT(std::string(status.message()), HasSubstr(violation->value));
  EXPECT_THAT(std::string(status.message()), HasSubstr(violation->limit));
}

constexpr int64_t kHuge = int64_t{1} << 40;

// The shape of query, and of key and value as far as they follow it, without the bytes that such shapes would take.
Change HugeBatchAndHeads() {
  return [](v1::AttendRequest& r) {
    for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
      tensor->set_shape(0, kHuge);
      tensor->set_shape(1, kHuge);
    }
  };
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadInputTest,
    testing::Values(
        BadInput{
            "empty message", [](v1::AttendRequest& r) { r.Clear(); }, {"query", "MISSING_FIELD", "absent", "a tensor"}},
        BadInput{"no value",
                 [](v1::AttendRequest& r) { r.clear_value(); },
                 {"value", "MISSING_FIELD", "absent", "a tensor"}},
        BadInput{"rank 3",
                 [](v1::AttendRequest& r) { r.mutable_query()->mutable_shape()->RemoveLast(); },
                 {"query.shape", "RANK_MISMATCH", "3", "4"}},
        BadInput{"rank 5",
                 [](v1::AttendRequest& r) { r.mutable_key()->add_shape(1); },
                 {"key.shape", "RANK_MISMATCH", "5", "4"}},
        BadInput{"rank 0",
                 [](v1::AttendRequest& r) { r.mutable_value()->clear_shape(); },
                 {"value.shape", "RANK_MISMATCH", "0", "4"}},
        BadInput{"zero query heads",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_shape(1, 0); },
                 {"query.shape[1]", "HEADS_OUT_OF_RANGE", "0", "at least 1"}},
        BadInput{"zero kv heads",
                 [](v1::AttendRequest& r) { r.mutable_key()->set_shape(1, 0); },
                 {"key.shape[1]", "HEADS_OUT_OF_RANGE", "0", "at least 1"}},
        BadInput{"zero head_dim",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_shape(3, 0); },
                 {"query.shape[3]", "DIM_OUT_OF_RANGE", "0", "in [1, 1024]"}},
        BadInput{"zero value_dim",
                 [](v1::AttendRequest& r) { r.mutable_value()->set_shape(3, 0); },
                 {"value.shape[3]", "DIM_OUT_OF_RANGE", "0", "in [1, 1024]"}},
        BadInput{"head_dim 1025",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_shape(3, 1025); },
                 {"query.shape[3]", "DIM_OUT_OF_RANGE", "1025", "in [1, 1024]"}},
        BadInput{"negative batch",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_shape(0, -1); },
                 {"query.shape[0]", "LENGTH_OUT_OF_RANGE", "-1", "at least 0"}},
        BadInput{"negative query_length",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_shape(2, -7); },
                 {"query.shape[2]", "LENGTH_OUT_OF_RANGE", "-7", "at least 0"}},
        BadInput{"negative key_length in layout BNHD",
                 [](v1::AttendRequest& r) {
                   MakeBnhd(r);
                   r.mutable_key()->set_shape(1, -7);
                 },
                 {"key.shape[1]", "LENGTH_OUT_OF_RANGE", "-7", "at least 0"}},
        BadInput{"negative dim",
                 [](v1::AttendRequest& r) { r.mutable_value()->set_shape(3, -1); },
                 {"value.shape[3]", "DIM_OUT_OF_RANGE", "-1", "in [1, 1024]"}},
        BadInput{"sizes overflow",
                 HugeBatchAndHeads(),
                 {"query.shape", "SIZE_OVERFLOW", absl::StrCat("[", kHuge, ", ", kHuge, ", 3, 8]"), "2^63 - 1 bytes"}},
        BadInput{"more bytes than the shape takes",
                 [](v1::AttendRequest& r) { r.mutable_query()->mutable_data()->push_back('x'); },
                 {"query.data", "BYTE_COUNT_MISMATCH", "769", "768"}},
        BadInput{"fewer bytes than the shape takes",
                 [](v1::AttendRequest& r) { r.mutable_value()->mutable_data()->pop_back(); },
                 {"value.data", "BYTE_COUNT_MISMATCH", "479", "480"}},
        BadInput{"no bytes",
                 [](v1::AttendRequest& r) { r.mutable_key()->clear_data(); },
                 {"key.data", "BYTE_COUNT_MISMATCH", "0", "640"}},
        BadInput{"no type",
                 [](v1::AttendRequest& r) { r.mutable_query()->clear_data_type(); },
                 {"query.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_UNSPECIFIED",
                  "DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16 or DATA_TYPE_FLOAT16"}},
        BadInput{"a type that is no float",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_data_type(v1::DATA_TYPE_INT64); },
                 {"query.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_INT64",
                  "DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16 or DATA_TYPE_FLOAT16"}},
        BadInput{"key of another type",
                 [](v1::AttendRequest& r) { r.mutable_key()->set_data_type(v1::DATA_TYPE_FLOAT16); },
                 {"key.data_type", "TYPE_MISMATCH", "DATA_TYPE_FLOAT16", "DATA_TYPE_FLOAT32"}},
        BadInput{"value without a type",
                 [](v1::AttendRequest& r) { r.mutable_value()->clear_data_type(); },
                 {"value.data_type", "TYPE_MISMATCH", "DATA_TYPE_UNSPECIFIED", "DATA_TYPE_FLOAT32"}},
        BadInput{"heads that do not divide",
                 [](v1::AttendRequest& r) { r.mutable_query()->set_shape(1, 3); },
                 {"query.shape[1]", "HEADS_NOT_DIVISIBLE", "3", "a multiple of kv_heads, 2"}},
        BadInput{"another batch in key",
                 [](v1::AttendRequest& r) { r.mutable_key()->set_shape(0, 1); },
                 {"key.shape[0]", "SHAPE_MISMATCH", "1", "2"}},
        BadInput{"another head_dim in key",
                 [](v1::AttendRequest& r) { r.mutable_key()->set_shape(3, 4); },
                 {"key.shape[3]", "SHAPE_MISMATCH", "4", "8"}},
        BadInput{"negative head_dim in key",
                 [](v1::AttendRequest& r) { r.mutable_key()->set_shape(3, -8); },
                 {"key.shape[3]", "SHAPE_MISMATCH", "-8", "8"}},
        BadInput{"another batch in value",
                 [](v1::AttendRequest& r) { r.mutable_value()->set_shape(0, 0); },
                 {"value.shape[0]", "SHAPE_MISMATCH", "0", "2"}},
        BadInput{"other kv_heads in value",
                 [](v1::AttendRequest& r) { r.mutable_value()->set_shape(1, 4); },
                 {"value.shape[1]", "SHAPE_MISMATCH", "4", "2"}},
        BadInput{"another key_length in value",
                 [](v1::AttendRequest& r) { r.mutable_value()->set_shape(2, 6); },
                 {"value.shape[2]", "SHAPE_MISMATCH", "6", "5"}}));

// Sets `list` to `numbers`.
template <typename List, typename T>
void Assign(List* list, std::initializer_list<T> numbers) {
  list->Assign(numbers.begin(), numbers.end());
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Positions, BadInputTest,
    testing::Values(BadInput{"too few query offsets",
                             [](v1::AttendRequest& r) { r.mutable_options()->add_query_offset(1); },
                             {"options.query_offset", "QUERY_OFFSET_COUNT", "1", "2"}},
                    BadInput{"window_right below -1",
                             [](v1::AttendRequest& r) { r.mutable_options()->set_window_right(-5); },
                             {"options.window_right", "WINDOW_OUT_OF_RANGE", "-5", "at least -1"}},
                    BadInput{"query_starts in another layout",
                             [](v1::AttendRequest& r) {
                               Assign(r.mutable_options()->mutable_query_starts(), {0, 3});
                             },
                             {"options.query_starts", "OPTIONS_CONTRADICT", "present", "absent but in layout THD"}},
                    BadInput{"key_starts in another layout",
                             [](v1::AttendRequest& r) { r.mutable_options()->add_key_starts(0); },
                             {"options.key_starts", "OPTIONS_CONTRADICT", "present", "absent but in layout THD"}},
                    BadInput{"THD without query_starts",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_options()->clear_query_starts();
                             },
                             {"options.query_starts", "STARTS_COUNT", "0", "batch + 1"}},
                    BadInput{"THD without key_starts",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_options()->clear_key_starts();
                             },
                             {"options.key_starts", "STARTS_COUNT", "0", "batch + 1"}},
                    BadInput{"starts that do not begin at 0",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_options()->set_query_starts(0, 1);
                             },
                             {"options.query_starts[0]", "STARTS_OUT_OF_ORDER", "1", "0"}},
                    BadInput{"starts that decrease",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_options()->set_query_starts(1, 4);
                             },
                             {"options.query_starts[2]", "STARTS_OUT_OF_ORDER", "3", "at least the one before it, 4"}},
                    BadInput{"starts that do not end at the total",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_options()->set_key_starts(2, 6);
                             },
                             {"options.key_starts[2]", "STARTS_OUT_OF_ORDER", "6", "5, the total length"}},
                    BadInput{"rank 4 in layout THD",
                             [](v1::AttendRequest& r) { r.mutable_options()->set_layout(v1::LAYOUT_THD); },
                             {"query.shape", "RANK_MISMATCH", "4", "3"}},
                    BadInput{"other kv_heads in value of layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_value()->set_shape(1, 1);
                             },
                             {"value.shape[1]", "SHAPE_MISMATCH", "1", "2"}},
                    BadInput{"heads that do not divide in layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_query()->set_shape(1, 3);
                             },
                             {"query.shape[1]", "HEADS_NOT_DIVISIBLE", "3", "a multiple of kv_heads, 2"}},
                    BadInput{"key_lengths in layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               Assign(r.mutable_options()->mutable_key_lengths(), {5, 0});
                             },
                             {"options.key_lengths", "OPTIONS_CONTRADICT", "present",
                              "absent in layout THD, where key_starts says how many keys there are"}},
                    BadInput{"mask in layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               SetMask(r, {1, 5}, 5);
                             },
                             {"options.mask", "OPTIONS_CONTRADICT", "present", "absent in layout THD"}},
                    BadInput{"bias in layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               SetBias(r, v1::DATA_TYPE_FLOAT32, {1, 5}, 20);
                             },
                             {"options.bias", "OPTIONS_CONTRADICT", "present", "absent in layout THD"}},
                    BadInput{"weights in layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_results()->set_weights(true);
                             },
                             {"results.weights", "OPTIONS_CONTRADICT", "asked for", "absent in layout THD"}},
                    BadInput{"scores in layout THD",
                             [](v1::AttendRequest& r) {
                               MakeRagged(r);
                               r.mutable_results()->set_scores(v1::SCORE_STAGE_SCALED);
                             },
                             {"results.scores", "OPTIONS_CONTRADICT", "asked for", "absent in layout THD"}}));

INSTANTIATE_TEST_SUITE_P(
    MasksAndHeads, BadInputTest,
    testing::Values(BadInput{"mask of floats",
                             [](v1::AttendRequest& r) {
                               SetMask(r, {3, 5}, 60);
                               r.mutable_options()->mutable_mask()->set_data_type(v1::DATA_TYPE_FLOAT32);
                             },
                             {"options.mask.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_FLOAT32", "DATA_TYPE_BOOL"}},
                    BadInput{"mask that is empty",
                             [](v1::AttendRequest& r) { r.mutable_options()->mutable_mask(); },
                             {"options.mask.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_UNSPECIFIED", "DATA_TYPE_BOOL"}},
                    BadInput{"bias of bools",
                             [](v1::AttendRequest& r) {
                               SetBias(r, v1::DATA_TYPE_BOOL, {3, 5}, 15);
                             },
                             {"options.bias.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_BOOL",
                              "DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16 or DATA_TYPE_FLOAT16"}},
                    BadInput{"mask of rank 1",
                             [](v1::AttendRequest& r) { SetMask(r, {5}, 5); },
                             {"options.mask.shape", "NOT_BROADCASTABLE", "of rank 1",
                              "of rank 2 (query_length, key_length), 3 (with query_heads) or 4 (with batch)"}},
                    BadInput{"bias of rank 5",
                             [](v1::AttendRequest& r) {
                               SetBias(r, v1::DATA_TYPE_FLOAT16, {1, 1, 1, 1, 1}, 2);
                             },
                             {"options.bias.shape", "NOT_BROADCASTABLE", "of rank 5",
                              "of rank 2 (query_length, key_length), 3 (with query_heads) or 4 (with batch)"}},
                    BadInput{"padding mask of rank 2",
                             [](v1::AttendRequest& r) {
                               SetMask(r, {2, 5}, 10);
                             },
                             {"options.mask.shape[0]", "NOT_BROADCASTABLE", "2", "1 or query_length, 3"}},
                    BadInput{"bias for kv heads",
                             [](v1::AttendRequest& r) {
                               SetBias(r, v1::DATA_TYPE_FLOAT32, {2, 3, 5}, 120);
                             },
                             {"options.bias.shape[0]", "NOT_BROADCASTABLE", "2", "1 or query_heads, 4"}},
                    BadInput{"mask with a negative axis",
                             [](v1::AttendRequest& r) {
                               SetMask(r, {3, -5}, 15);
                             },
                             {"options.mask.shape[1]", "NOT_BROADCASTABLE", "-5", "1 or key_length, 5"}},
                    BadInput{"mask of too few bytes",
                             [](v1::AttendRequest& r) {
                               SetMask(r, {3, 5}, 14);
                             },
                             {"options.mask.data", "BYTE_COUNT_MISMATCH", "14", "15"}},
                    BadInput{"bias of too many bytes",
                             [](v1::AttendRequest& r) {
                               SetBias(r, v1::DATA_TYPE_FLOAT32, {1, 1}, 5);
                             },
                             {"options.bias.data", "BYTE_COUNT_MISMATCH", "5", "4"}},
                    BadInput{"slopes for kv heads",
                             [](v1::AttendRequest& r) {
                               Assign(r.mutable_options()->mutable_alibi_slopes(), {1.0F, 1.0F});
                             },
                             {"options.alibi_slopes", "SLOPES_COUNT", "2", "4"}},
                    BadInput{"infinite slope",
                             [](v1::AttendRequest& r) {
                               Assign(r.mutable_options()->mutable_alibi_slopes(), {1.0F, 1.0F, kInfinity, 1.0F});
                             },
                             {"options.alibi_slopes[2]", "SLOPE_NOT_FINITE", "inf", "finite"}},
                    BadInput{"too many sinks",
                             [](v1::AttendRequest& r) { r.mutable_options()->mutable_sinks()->Resize(5, 1); },
                             {"options.sinks", "SINKS_COUNT", "5", "4"}},
                    BadInput{"NaN sink",
                             [](v1::AttendRequest& r) {
                               Assign(r.mutable_options()->mutable_sinks(), {-kInfinity, kNan, 1.0F, 1.0F});
                             },
                             {"options.sinks[1]", "SINK_OUT_OF_RANGE", "nan", "finite or -inf"}},
                    BadInput{"infinite sink",
                             [](v1::AttendRequest& r) {
                               Assign(r.mutable_options()->mutable_sinks(), {1.0F, 1.0F, 1.0F, kInfinity});
                             },
                             {"options.sinks[3]", "SINK_OUT_OF_RANGE", "inf", "finite or -inf"}},
                    BadInput{"bf16 products of f16 inputs",
                             [](v1::AttendRequest& r) {
                               for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
                                 tensor->set_data_type(v1::DATA_TYPE_FLOAT16);
                                 tensor->mutable_data()->resize(tensor->data().size() / 2);
                               }
                               r.mutable_options()->set_compute_type(v1::COMPUTE_TYPE_BF16);
                             },
                             {"options.compute_type", "COMPUTE_TYPE_MISMATCH", "bf16",
                              "that of the inputs where those are f16"}},
                    BadInput{"narrower output",
                             [](v1::AttendRequest& r) { r.mutable_options()->set_output_type(v1::DATA_TYPE_FLOAT16); },
                             {"options.output_type", "OUTPUT_TYPE_MISMATCH", "DATA_TYPE_FLOAT16",
                              "the type of query, or DATA_TYPE_FLOAT32"}}));

INSTANTIATE_TEST_SUITE_P(
    Results, BadInputTest,
    testing::Values(
        BadInput{"negative row",
                 [](v1::AttendRequest& r) {
                   r.mutable_results()->set_weights(true);
                   Assign(r.mutable_results()->mutable_weight_query_rows(), {0, -1});
                 },
                 {"results.weight_query_rows[1]", "QUERY_ROW_OUT_OF_RANGE", "-1", "in [0, 3)"}},
        BadInput{"row beyond the queries",
                 [](v1::AttendRequest& r) {
                   r.mutable_results()->set_weights(true);
                   Assign(r.mutable_results()->mutable_weight_query_rows(), {3});
                 },
                 {"results.weight_query_rows[0]", "QUERY_ROW_OUT_OF_RANGE", "3", "in [0, 3)"}},
        BadInput{"row twice",
                 [](v1::AttendRequest& r) {
                   r.mutable_results()->set_scores(v1::SCORE_STAGE_MASKED);
                   Assign(r.mutable_results()->mutable_weight_query_rows(), {2, 0, 2});
                 },
                 {"results.weight_query_rows[2]", "QUERY_ROW_TWICE", "2", "a row that is not listed before"}},
        BadInput{"rows of nothing",
                 [](v1::AttendRequest& r) { r.mutable_results()->add_weight_query_rows(0); },
                 {"results.weight_query_rows", "OPTIONS_CONTRADICT", "present",
                  "absent where neither weights nor scores are asked for"}},
        BadInput{"average of nothing",
                 [](v1::AttendRequest& r) {
                   r.mutable_results()->set_average_weights_over_heads(true);
                   r.mutable_results()->set_scores(v1::SCORE_STAGE_SCALED);
                 },
                 {"results.average_weights_over_heads", "OPTIONS_CONTRADICT", "true",
                  "false where no weights are asked for"}},
        BadInput{"nothing at all",
                 [](v1::AttendRequest& r) { r.mutable_results()->set_omit_output(true); },
                 {"results.omit_output", "OPTIONS_CONTRADICT", "true", "false where no other result is asked for"}}));

INSTANTIATE_TEST_SUITE_P(
    Options, BadInputTest,
    testing::Values(
        BadInput{"too few key_lengths",
                 [](v1::AttendRequest& r) { r.mutable_options()->add_key_lengths(1); },
                 {"options.key_lengths", "KEY_LENGTHS_COUNT", "1", "2"}},
        BadInput{"negative key length",
                 [](v1::AttendRequest& r) {
                   r.mutable_options()->add_key_lengths(1);
                   r.mutable_options()->add_key_lengths(-1);
                 },
                 {"options.key_lengths[1]", "KEY_LENGTH_OUT_OF_RANGE", "-1", "in [0, 5]"}},
        BadInput{"key length beyond the keys",
                 [](v1::AttendRequest& r) {
                   r.mutable_options()->add_key_lengths(6);
                   r.mutable_options()->add_key_lengths(5);
                 },
                 {"options.key_lengths[0]", "KEY_LENGTH_OUT_OF_RANGE", "6", "in [0, 5]"}},
        BadInput{"NaN scale",
                 [](v1::AttendRequest& r) { r.mutable_options()->set_scale(std::numeric_limits<float>::quiet_NaN()); },
                 {"options.scale", "SCALE_NOT_FINITE", "nan", "finite"}},
        BadInput{"infinite scale",
                 [](v1::AttendRequest& r) { r.mutable_options()->set_scale(-std::numeric_limits<float>::infinity()); },
                 {"options.scale", "SCALE_NOT_FINITE", "-inf", "finite"}},
        BadInput{"unknown layout",
                 [](v1::AttendRequest& r) { r.mutable_options()->set_layout(static_cast<v1::Layout>(4)); },
                 {"options.layout", "UNKNOWN_ENUM_NUMBER", "4",
                  "one of LAYOUT_UNSPECIFIED (0), LAYOUT_BHND (1), LAYOUT_BNHD (2), LAYOUT_THD (3)"}},
        BadInput{"unknown type",
                 [](v1::AttendRequest& r) { r.mutable_value()->set_data_type(static_cast<v1::DataType>(-3)); },
                 {"value.data_type", "UNKNOWN_ENUM_NUMBER", "-3",
                  "one of DATA_TYPE_UNSPECIFIED (0), DATA_TYPE_FLOAT32 (1), DATA_TYPE_BFLOAT16 (2), DATA_TYPE_FLOAT16 "
                  "(3), DATA_TYPE_BOOL (4), DATA_TYPE_INT64 (5)"}},
        BadInput{"negative softcap",
                 [](v1::AttendRequest& r) { r.mutable_options()->set_softcap(-1); },
                 {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "-1", "finite, 0 (none) or more"}},
        BadInput{
            "NaN softcap",
            [](v1::AttendRequest& r) { r.mutable_options()->set_softcap(std::numeric_limits<float>::quiet_NaN()); },
            {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "nan", "finite, 0 (none) or more"}},
        BadInput{"window below -1",
                 [](v1::AttendRequest& r) { r.mutable_options()->set_window_left(-2); },
                 {"options.window_left", "WINDOW_OUT_OF_RANGE", "-2", "at least -1"}},
        BadInput{"output type that is no float",
                 [](v1::AttendRequest& r) { r.mutable_options()->set_output_type(v1::DATA_TYPE_BOOL); },
                 {"options.output_type", "OUTPUT_TYPE_MISMATCH", "DATA_TYPE_BOOL",
                  "the type of query, or DATA_TYPE_FLOAT32"}},
        BadInput{"priority 10",
                 [](v1::AttendRequest& r) { r.set_priority(10); },
                 {"priority", "PRIORITY_OUT_OF_RANGE", "10", "in [0, 9]"}},
        BadInput{"negative priority",
                 [](v1::AttendRequest& r) { r.set_priority(-1); },
                 {"priority", "PRIORITY_OUT_OF_RANGE", "-1", "in [0, 9]"}},
        BadInput{"long request_id",
                 [](v1::AttendRequest& r) { r.set_request_id(std::string(129, 'x')); },
                 {"request_id", "REQUEST_ID_TOO_LONG", "129 bytes long", "at most 128"}},
        BadInput{"request_id with a line break",
                 [](v1::AttendRequest& r) { r.set_request_id("a\nb"); },
                 {"request_id", "REQUEST_ID_NOT_PRINTABLE", "byte 0x0a at 1", "printable ASCII"}},
        BadInput{"request_id beyond ASCII",
                 [](v1::AttendRequest& r) { r.set_request_id("\xc3\xa9"); },
                 {"request_id", "REQUEST_ID_NOT_PRINTABLE", "byte 0xc3 at 0", "printable ASCII"}}));

}  // namespace
}  // namespace attend::server
