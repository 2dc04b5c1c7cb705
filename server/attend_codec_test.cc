#include "server/attend_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/violation.h"
#include "server/response_writer.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxMessageBytes = 1'000'000;

// batch 2, 4 query heads on 2 kv heads, 3 queries, 5 keys, head_dim 8, value_dim 6, f32.
v1::AttendRequest GoodRequest() {
  v1::AttendRequest request;
  const auto fill = [](v1::Tensor& tensor, const std::vector<int64_t>& shape) {
    size_t bytes = sizeof(float);
    for (const int64_t length : shape) bytes *= static_cast<size_t>(length);
    tensor.set_data_type(v1::DATA_TYPE_FLOAT32);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    tensor.set_data(std::string(bytes, '\0'));
  };
  fill(*request.mutable_query(), {2, 4, 3, 8});
  fill(*request.mutable_key(), {2, 2, 5, 8});
  fill(*request.mutable_value(), {2, 2, 5, 6});
  return request;
}

absl::StatusOr<DecodedRequest> DecodeBytes(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  auto parts = ReadAttendRequest(grpc::ByteBuffer(&slice, 1));
  if (!parts.ok()) return parts.status();
  return DecodeAttendRequest(*std::move(parts), {.max_message_bytes = kMaxMessageBytes, .version = "1.2.3"});
}

absl::StatusOr<DecodedRequest> Decode(const v1::AttendRequest& request) {
  return DecodeBytes(request.SerializeAsString());
}

using Change = std::function<void(v1::AttendRequest&)>;

absl::StatusOr<DecodedRequest> DecodeChanged(const Change& change) {
  v1::AttendRequest request = GoodRequest();
  change(request);
  return Decode(request);
}

void Transpose(v1::Tensor& tensor) { tensor.mutable_shape()->SwapElements(1, 2); }

void MakeBnhd(v1::AttendRequest& request) {
  request.mutable_options()->set_layout(v1::LAYOUT_BNHD);
  Transpose(*request.mutable_query());
  Transpose(*request.mutable_key());
  Transpose(*request.mutable_value());
}

TEST(DecodeAttendRequestTest, ReadsAProblem) {
  const auto decoded = DecodeChanged([](v1::AttendRequest& r) {
    r.mutable_options()->set_scale(-2);
    r.mutable_options()->set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
    r.mutable_options()->add_key_lengths(0);
    r.mutable_options()->add_key_lengths(5);
    r.mutable_results()->set_weights(true);
    r.mutable_results()->set_logsumexp(true);
    r.set_request_id("an id");
    r.set_priority(9);
  });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const core::AttentionShape& shape = decoded->problem.shape();
  EXPECT_EQ(shape.batch, 2);
  EXPECT_EQ(shape.query_heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.query_length, 3);
  EXPECT_EQ(shape.key_length, 5);
  EXPECT_EQ(shape.head_dim, 8);
  EXPECT_EQ(shape.value_dim, 6);
  EXPECT_EQ(decoded->problem.type(), core::ElementType::kFloat32);
  EXPECT_EQ(decoded->problem.scale(), -2);
  EXPECT_EQ(decoded->problem.options().layout, core::Layout::kBHND);
  EXPECT_EQ(decoded->problem.options().causal, core::CausalAlignment::kBottomRight);
  EXPECT_THAT(decoded->problem.options().key_lengths, testing::ElementsAre(0, 5));
  EXPECT_TRUE(decoded->problem.results().weights);
  EXPECT_TRUE(decoded->problem.results().logsumexp);
  EXPECT_EQ(decoded->tensors.query.size(), decoded->problem.QueryBytes());
  EXPECT_EQ(decoded->tensors.key.size(), decoded->problem.KeyBytes());
  EXPECT_EQ(decoded->tensors.value.size(), decoded->problem.ValueBytes());
  EXPECT_EQ(decoded->request_id, "an id");
  EXPECT_EQ(decoded->priority, 9);
}

TEST(DecodeAttendRequestTest, FillsInTheDefaults) {
  const auto decoded = Decode(GoodRequest());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FLOAT_EQ(decoded->problem.scale(), 1 / std::sqrt(8.0F));
  EXPECT_EQ(decoded->problem.options().causal, core::CausalAlignment::kNone);
  EXPECT_TRUE(decoded->problem.options().key_lengths.empty());
  EXPECT_FALSE(decoded->problem.results().weights);
  EXPECT_FALSE(decoded->problem.results().logsumexp);
  EXPECT_EQ(decoded->request_id, "");
  EXPECT_EQ(decoded->priority, 5);
}

TEST(DecodeAttendRequestTest, ReadsTheLayoutWithLengthsBeforeHeads) {
  const auto decoded = DecodeChanged(MakeBnhd);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->problem.options().layout, core::Layout::kBNHD);
  EXPECT_EQ(decoded->problem.shape().query_heads, 4);
  EXPECT_EQ(decoded->problem.shape().kv_heads, 2);
  EXPECT_EQ(decoded->problem.shape().query_length, 3);
  EXPECT_EQ(decoded->problem.shape().key_length, 5);
}

TEST(DecodeAttendRequestTest, ReadsEveryElementType) {
  for (const auto& [wire_type, type] : {std::pair(v1::DATA_TYPE_BFLOAT16, core::ElementType::kBFloat16),
                                        std::pair(v1::DATA_TYPE_FLOAT16, core::ElementType::kFloat16)}) {
    const auto decoded = DecodeChanged([wire_type = wire_type](v1::AttendRequest& r) {
      for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
        tensor->set_data_type(wire_type);
        tensor->mutable_data()->resize(tensor->data().size() / 2);
      }
    });
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->problem.type(), type);
  }
}

TEST(DecodeAttendRequestTest, AcceptsNoKeysNoQueriesAndNoBatch) {
  for (const Change& change : {
           Change([](v1::AttendRequest& r) {
             for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
               tensor->set_shape(0, 0);
               tensor->clear_data();
             }
           }),
           Change([](v1::AttendRequest& r) {
             r.mutable_query()->set_shape(2, 0);
             r.mutable_query()->clear_data();
           }),
           Change([](v1::AttendRequest& r) {
             for (v1::Tensor* tensor : {r.mutable_key(), r.mutable_value()}) {
               tensor->set_shape(2, 0);
               tensor->clear_data();
             }
           }),
       }) {
    EXPECT_TRUE(DecodeChanged(change).ok()) << DecodeChanged(change).status();
  }
}

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
                 {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "-1", "finite and at least 0"}},
        BadInput{
            "NaN softcap",
            [](v1::AttendRequest& r) { r.mutable_options()->set_softcap(std::numeric_limits<float>::quiet_NaN()); },
            {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "nan", "finite and at least 0"}},
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

TEST(DecodeAttendRequestTest, RefusesBytesThatAreNoMessage) {
  const absl::Status status = DecodeBytes("no message at all").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, "");
  EXPECT_EQ(violation->reason, "MALFORMED_MESSAGE");
  EXPECT_EQ(violation->value, "17 bytes");
}

TEST(DecodeAttendRequestTest, RefusesMoreThanOneMebibyteBesidesTensors) {
  const absl::Status status = DecodeChanged([](v1::AttendRequest& r) {
                                for (int i = 0; i < 200'000; ++i)
                                  r.mutable_options()->add_key_lengths(int64_t{1} << 40);
                              }).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->reason, "FIELDS_TOO_LARGE");
  EXPECT_EQ(violation->limit, "1048576 bytes besides tensor data");
}

TEST(DecodeAttendRequestTest, RefusesUnknownFieldsAtEveryDepth) {
  const auto add = [](google::protobuf::Message& message) {
    message.GetReflection()->MutableUnknownFields(&message)->AddVarint(77, 1);
  };
  struct Place {
    std::string field;
    Change change;
  };
  for (const Place& place : {
           Place{"77", [&](v1::AttendRequest& r) { add(r); }},
           Place{"query.77", [&](v1::AttendRequest& r) { add(*r.mutable_query()); }},
           Place{"options.77", [&](v1::AttendRequest& r) { add(*r.mutable_options()); }},
           Place{"options.bias.77", [&](v1::AttendRequest& r) { add(*r.mutable_options()->mutable_bias()); }},
           Place{"results.77", [&](v1::AttendRequest& r) { add(*r.mutable_results()); }},
       }) {
    const absl::Status status = DecodeChanged(place.change).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << place.field << ": " << status;
    EXPECT_EQ(core::GetViolation(status)->field, place.field);
    EXPECT_EQ(core::GetViolation(status)->reason, "UNKNOWN_FIELD");
    EXPECT_THAT(std::string(status.message()), HasSubstr("attend 1.2.3"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("77"));
  }
}

TEST(DecodeAttendRequestTest, RefusesAResponseThatIsTooLargeWhateverItsInputs) {
  // Without keys there are no inputs but the queries, and the output is 1024 times as large as they are.
  const absl::Status status = DecodeChanged([](v1::AttendRequest& r) {
                                for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
                                  tensor->clear_shape();
                                  tensor->clear_data();
                                }
                                for (const int64_t length : {1, 1, 1000, 1}) r.mutable_query()->add_shape(length);
                                r.mutable_query()->set_data(std::string(4000, '\0'));
                                for (const int64_t length : {1, 1, 0, 1}) r.mutable_key()->add_shape(length);
                                for (const int64_t length : {1, 1, 0, 1024}) r.mutable_value()->add_shape(length);
                              }).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(core::GetViolation(status)->field, "query.shape");
  EXPECT_EQ(core::GetViolation(status)->reason, "RESPONSE_TOO_LARGE");
  EXPECT_EQ(core::GetViolation(status)->limit, "1000000");
  EXPECT_THAT(std::string(status.message()), HasSubstr("output 4096000"));
}

TEST(DecodeAttendRequestTest, RefusesWeightsThatAreTooLarge) {
  const Change change = [](v1::AttendRequest& r) {
    for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
      tensor->clear_shape();
      for (const int64_t length : {1, 1, 1000, 1}) tensor->add_shape(length);
      tensor->set_data(std::string(4000, '\0'));
    }
  };
  ASSERT_TRUE(DecodeChanged(change).ok()) << DecodeChanged(change).status();
  const absl::Status status = DecodeChanged([&](v1::AttendRequest& r) {
                                change(r);
                                r.mutable_results()->set_weights(true);
                              }).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  EXPECT_EQ(violation->field, "results.weights");
  EXPECT_EQ(violation->reason, "RESPONSE_TOO_LARGE");
  EXPECT_EQ(violation->limit, "1000000");
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights 4000000"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(violation->value));
}

TEST(CheckRequestIdTest, AcceptsEverythingPrintableUpToTheLimit) {
  std::string all;
  for (char c = 0x20; c < 0x7f; ++c) all.push_back(c);
  EXPECT_TRUE(CheckRequestId(all).ok());
  EXPECT_TRUE(CheckRequestId("").ok());
  EXPECT_TRUE(CheckRequestId(std::string(128, 'x')).ok());
}

}  // namespace
}  // namespace attend::server
