// Every kind of bad request, through the wire: the code, field, reason and limit it is refused with, and that the
// server computes the next request exactly as before. Options and results are bad_option_test's.
#include "tests/integration/bad_request_test.h"

#include <algorithm>
#include <string>
#include <vector>

namespace attend::testing {
namespace {

using attend::v1::AttendRequest;
using ::testing::HasSubstr;

TEST_P(BadFieldTest, IsRefusedByName) { ExpectRefusedByName(); }

void AddUnknown(google::protobuf::Message& message, int number) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(number, 7);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BadFieldTest,
    ::testing::Values(
        BadRequestCase{"RankThree",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_query(), {4, 3, 8});
                       },
                       kInvalid, "query.shape", "RANK_MISMATCH", "3", "4"},
        BadRequestCase{"RankFive",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_value(), {1, 2, 2, 5, 6});
                       },
                       kInvalid, "value.shape", "RANK_MISMATCH", "5", "4"},
        BadRequestCase{"NoQueryHeads",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_query(), {2, 0, 3, 8});
                       },
                       kInvalid, "query.shape[1]", "HEADS_OUT_OF_RANGE", "0", "1"},
        BadRequestCase{"NoHeadDim",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_query(), {2, 4, 3, 0});
                         Fill(*r.mutable_key(), {2, 2, 5, 0});
                       },
                       kInvalid, "query.shape[3]", "DIM_OUT_OF_RANGE", "0", "[1, 1024]"},
        BadRequestCase{"HeadDimTooLarge",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_query(), {2, 4, 3, 1025});
                         Fill(*r.mutable_key(), {2, 2, 5, 1025});
                       },
                       kInvalid, "query.shape[3]", "DIM_OUT_OF_RANGE", "1025", "[1, 1024]"},
        BadRequestCase{"NegativeLength", [](AttendRequest& r) { r.mutable_query()->set_shape(2, -3); }, kInvalid,
                       "query.shape[2]", "LENGTH_OUT_OF_RANGE", "-3", "0"},
        BadRequestCase{"Overflow",
                       [](AttendRequest& r) {
                         for (attend::v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
                           tensor->set_shape(0, int64_t{1} << 61);
                         }
                       },
                       kInvalid, "query.shape", "SIZE_OVERFLOW", "[2305843009213693952, 4, 3, 8]", "2^63 - 1"},
        BadRequestCase{"OneByteMissing", [](AttendRequest& r) { r.mutable_key()->mutable_data()->pop_back(); },
                       kInvalid, "key.data", "BYTE_COUNT_MISMATCH", "639", "640"},
        BadRequestCase{"OneByteMore", [](AttendRequest& r) { r.mutable_value()->mutable_data()->push_back('x'); },
                       kInvalid, "value.data", "BYTE_COUNT_MISMATCH", "481", "480"},
        BadRequestCase{"HeadsDoNotDivide",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_query(), {2, 3, 3, 8});
                       },
                       kInvalid, "query.shape[1]", "HEADS_NOT_DIVISIBLE", "3", "2"},
        BadRequestCase{"OtherBatchOfKey",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_key(), {1, 2, 5, 8});
                       },
                       kInvalid, "key.shape[0]", "SHAPE_MISMATCH", "1", "2"},
        BadRequestCase{"OtherLengthOfValue",
                       [](AttendRequest& r) {
                         Fill(*r.mutable_value(), {2, 2, 4, 6});
                       },
                       kInvalid, "value.shape[2]", "SHAPE_MISMATCH", "4", "5"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    TypesAndOptions, BadFieldTest,
    ::testing::Values(
        BadRequestCase{"NoType",
                       [](AttendRequest& r) { r.mutable_query()->set_data_type(attend::v1::DATA_TYPE_UNSPECIFIED); },
                       kInvalid, "query.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_UNSPECIFIED", "FLOAT32"},
        BadRequestCase{"OtherTypeOfKey",
                       [](AttendRequest& r) { r.mutable_key()->set_data_type(attend::v1::DATA_TYPE_FLOAT16); },
                       kInvalid, "key.data_type", "TYPE_MISMATCH", "DATA_TYPE_FLOAT16", "FLOAT32"},
        BadRequestCase{
            "UnknownType",
            [](AttendRequest& r) { r.mutable_value()->set_data_type(static_cast<attend::v1::DataType>(77)); }, kInvalid,
            "value.data_type", "UNKNOWN_ENUM_NUMBER", "77", ""},
        BadRequestCase{"UnknownLayout",
                       [](AttendRequest& r) { r.mutable_options()->set_layout(static_cast<attend::v1::Layout>(9)); },
                       kInvalid, "options.layout", "UNKNOWN_ENUM_NUMBER", "9", ""},
        BadRequestCase{
            "UnknownCausal",
            [](AttendRequest& r) { r.mutable_options()->set_causal(static_cast<attend::v1::CausalAlignment>(-1)); },
            kInvalid, "options.causal", "UNKNOWN_ENUM_NUMBER", "-1", ""},
        BadRequestCase{"TooFewKeyLengths", [](AttendRequest& r) { r.mutable_options()->add_key_lengths(1); }, kInvalid,
                       "options.key_lengths", "KEY_LENGTHS_COUNT", "1", "2"},
        BadRequestCase{"NegativeKeyLength",
                       [](AttendRequest& r) {
                         r.mutable_options()->add_key_lengths(5);
                         r.mutable_options()->add_key_lengths(-1);
                       },
                       kInvalid, "options.key_lengths[1]", "KEY_LENGTH_OUT_OF_RANGE", "-1", "[0, 5]"},
        BadRequestCase{"KeyLengthBeyond",
                       [](AttendRequest& r) {
                         r.mutable_options()->add_key_lengths(6);
                         r.mutable_options()->add_key_lengths(0);
                       },
                       kInvalid, "options.key_lengths[0]", "KEY_LENGTH_OUT_OF_RANGE", "6", "[0, 5]"},
        BadRequestCase{"NanScale", [](AttendRequest& r) { r.mutable_options()->set_scale(kNan); }, kInvalid,
                       "options.scale", "SCALE_NOT_FINITE", "nan", "finite"},
        BadRequestCase{"InfiniteScale", [](AttendRequest& r) { r.mutable_options()->set_scale(-kInfinity); }, kInvalid,
                       "options.scale", "SCALE_NOT_FINITE", "-inf", "finite"},
        BadRequestCase{"Priority", [](AttendRequest& r) { r.set_priority(10); }, kInvalid, "priority",
                       "PRIORITY_OUT_OF_RANGE", "10", "[0, 9]"},
        BadRequestCase{"RequestIdTooLong", [](AttendRequest& r) { r.set_request_id(std::string(129, 'x')); }, kInvalid,
                       "request_id", "REQUEST_ID_TOO_LONG", "129 bytes", "128"},
        BadRequestCase{"UnknownFieldAtTop", [](AttendRequest& r) { AddUnknown(r, 4000); }, kUnimplemented, "4000",
                       "UNKNOWN_FIELD", "4000", ""},
        BadRequestCase{"UnknownFieldInTensor", [](AttendRequest& r) { AddUnknown(*r.mutable_key(), 99); },
                       kUnimplemented, "key.99", "UNKNOWN_FIELD", "99", ""},
        BadRequestCase{"UnknownFieldInOptions", [](AttendRequest& r) { AddUnknown(*r.mutable_options(), 300); },
                       kUnimplemented, "options.300", "UNKNOWN_FIELD", "300", ""}),
    [](const auto& test) { return test.param.name; });

TEST_F(BadRequestTest, AnEmptyMessage) {
  const grpc::Status status = Call(stub(), kAttend, "");
  EXPECT_EQ(status.error_code(), kInvalid);
  EXPECT_EQ(ReadDetails(status).field, "query");
  EXPECT_EQ(ReadDetails(status).reason, "MISSING_FIELD");
}

TEST_F(BadRequestTest, BytesThatAreNoMessage) {
  for (const std::string& bytes : {std::string("\xff\xff\xff\xff"), std::string(1000, '\x0a'), std::string("\x0b")}) {
    const grpc::Status status = Call(stub(), kAttend, bytes);
    EXPECT_EQ(status.error_code(), kInvalid) << status.error_message();
    EXPECT_EQ(ReadDetails(status).reason, "MALFORMED_MESSAGE") << status.error_message();
  }
}

TEST_F(BadRequestTest, EveryTruncationOfAMessage) {
  const std::string whole = GoodRequest().SerializeAsString();
  for (size_t size = 0; size < whole.size(); size += 7) {
    const grpc::Status status = Call(stub(), kAttend, whole.substr(0, size));
    EXPECT_EQ(status.error_code(), kInvalid) << size << " bytes of " << whole.size() << ": " << status.error_message();
  }
}

// A good request of exactly `bytes` bytes: request ids, of which the last counts, fill it up.
std::string RequestOfSize(int64_t bytes) {
  attend::v1::AttendRequest request;
  Fill(*request.mutable_query(), {1, 1, 1, 1});
  Fill(*request.mutable_key(), {1, 1, 16000, 1});
  Fill(*request.mutable_value(), {1, 1, 16000, 15});
  std::string message = request.SerializeAsString();
  while (static_cast<int64_t>(message.size()) < bytes) {
    const int64_t missing = bytes - static_cast<int64_t>(message.size());
    const int64_t next = missing <= 102 ? missing : std::min<int64_t>(missing - 2, 102);  // a field takes 2 at least
    attend::v1::AttendRequest id;
    id.set_request_id(std::string(next - 2, 'x'));
    message += id.SerializeAsString();
  }
  return message;
}

TEST_F(BadRequestTest, AMessageOneByteOverTheLimit) {
  const std::string at_limit = RequestOfSize(kMaxMessageBytes);
  ASSERT_EQ(static_cast<int64_t>(at_limit.size()), kMaxMessageBytes);
  const grpc::Status computed = Call(stub(), kAttend, at_limit);
  EXPECT_TRUE(computed.ok()) << computed.error_message();
  const std::string over_limit = RequestOfSize(kMaxMessageBytes + 1);
  ASSERT_EQ(static_cast<int64_t>(over_limit.size()), kMaxMessageBytes + 1);
  const grpc::Status refused = Call(stub(), kAttend, over_limit);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
  EXPECT_THAT(refused.error_message(), HasSubstr(std::to_string(kMaxMessageBytes)));
  EXPECT_THAT(refused.error_message(), HasSubstr(std::to_string(kMaxMessageBytes + 1)));
}

TEST_F(BadRequestTest, WeightsThatCouldNeverBeSent) {
  attend::v1::AttendRequest request;
  Fill(*request.mutable_query(), {1, 1, 1024, 8});
  Fill(*request.mutable_key(), {1, 1, 1024, 8});
  Fill(*request.mutable_value(), {1, 1, 1024, 8});
  request.mutable_results()->set_weights(true);
  const double before = server().Metric("attend_multiply_adds_total").value_or(-1);
  const grpc::Status status = Call(stub(), kAttend, request.SerializeAsString());
  EXPECT_EQ(status.error_code(), kInvalid) << status.error_message();
  EXPECT_EQ(ReadDetails(status).reason, "RESPONSE_TOO_LARGE");
  EXPECT_EQ(ReadDetails(status).limit, std::to_string(kMaxMessageBytes));
  EXPECT_THAT(status.error_message(), HasSubstr(std::to_string(kMaxMessageBytes)));
  EXPECT_EQ(server().Metric("attend_multiply_adds_total").value_or(-2), before) << "refused before any work";
}

TEST_F(BadRequestTest, UnknownMethods) {
  for (const char* method : {"/attend.v1.AttentionService/AttendStream", "/nobody/Nothing", "/x"}) {
    const grpc::Status status = Call(stub(), method, "");
    EXPECT_EQ(status.error_code(), kUnimplemented) << method;
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  }
}

}  // namespace
}  // namespace attend::testing
