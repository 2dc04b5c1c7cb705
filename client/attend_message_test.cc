#include "client/attend_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/util/message_differencer.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Flatten(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

grpc::ByteBuffer ToBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice bytes(message.SerializeAsString());
  return grpc::ByteBuffer(&bytes, 1);
}

attend::v1::AttendRequest Reparse(const grpc::ByteBuffer& message) {
  attend::v1::AttendRequest request;
  EXPECT_TRUE(request.ParseFromString(Flatten(message)));
  return request;
}

struct Inputs {
  std::vector<float> query = std::vector<float>(1 << 16, 1.5F);
  std::vector<float> key = {1, 2, 3, 4};
  std::vector<float> value = {5, 6};
  std::vector<char> mask = {1, 0};
  std::vector<float> bias = {0.25F, 0.5F};

  AttendRequest Request() const {
    AttendRequest request;
    request.query = FloatTensorView({1, 1, 1 << 14, 4}, query);
    request.key = FloatTensorView({1, 1, 1, 4}, key);
    request.value = FloatTensorView({1, 1, 1, 2}, value);
    request.mask =
        TensorView{.data_type = attend::v1::DATA_TYPE_BOOL, .shape = {1, 2}, .data = std::as_bytes(std::span(mask))};
    request.bias = FloatTensorView({2, 1}, bias);
    return request;
  }
};

TEST(EncodeAttendRequest, SendsTensorsWithShapesAndTypes) {
  const Inputs inputs;
  const auto message = EncodeAttendRequest(inputs.Request(), nullptr);
  ASSERT_TRUE(message.ok()) << message.status();
  const attend::v1::AttendRequest request = Reparse(*message);
  EXPECT_THAT(request.query().shape(), ElementsAre(1, 1, 1 << 14, 4));
  EXPECT_EQ(request.query().data_type(), attend::v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(request.query().data().size(), inputs.query.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(request.query().data().data(), inputs.query.data(), request.query().data().size()), 0);
  EXPECT_EQ(request.key().data(), std::string(reinterpret_cast<const char*>(inputs.key.data()), 16));
  EXPECT_EQ(request.value().data(), std::string(reinterpret_cast<const char*>(inputs.value.data()), 8));
  EXPECT_EQ(request.options().mask().data_type(), attend::v1::DATA_TYPE_BOOL);
  EXPECT_EQ(request.options().mask().data(), std::string("\1\0", 2));
  EXPECT_THAT(request.options().bias().shape(), ElementsAre(2, 1));
  EXPECT_EQ(request.options().bias().data().size(), 8U);
}

TEST(EncodeAttendRequest, RefersToTheCallersMemory) {
  const Inputs inputs;
  const auto message = EncodeAttendRequest(inputs.Request(), nullptr);
  ASSERT_TRUE(message.ok());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message->Dump(&slices).ok());
  std::set<const void*> starts;
  for (const grpc::Slice& slice : slices) starts.insert(slice.begin());
  EXPECT_TRUE(starts.contains(inputs.query.data()));
}

TEST(EncodeAttendRequest, PassesEveryOptionAndResultOn) {
  const Inputs inputs;
  AttendRequest request = inputs.Request();
  request.mask.reset();
  request.bias.reset();
  request.request_id = "r1";
  request.priority = 3;
  // By reflection, so that a field that is added to the contract is covered.
  for (google::protobuf::Message* part :
       std::initializer_list<google::protobuf::Message*>{&request.options, &request.results}) {
    const google::protobuf::Reflection& reflection = *part->GetReflection();
    for (int i = 0; i < part->GetDescriptor()->field_count(); ++i) {
      const google::protobuf::FieldDescriptor* field = part->GetDescriptor()->field(i);
      using Field = google::protobuf::FieldDescriptor;
      if (field->cpp_type() == Field::CPPTYPE_BOOL) reflection.SetBool(part, field, true);
      if (field->cpp_type() == Field::CPPTYPE_ENUM) reflection.SetEnumValue(part, field, 2);
      if (field->cpp_type() == Field::CPPTYPE_FLOAT && field->is_repeated()) reflection.AddFloat(part, field, 0.5F);
      if (field->cpp_type() == Field::CPPTYPE_FLOAT && !field->is_repeated()) reflection.SetFloat(part, field, 0.5F);
      if (field->cpp_type() == Field::CPPTYPE_INT64 && field->is_repeated()) reflection.AddInt64(part, field, 7);
      if (field->cpp_type() == Field::CPPTYPE_INT64 && !field->is_repeated()) reflection.SetInt64(part, field, 7);
    }
  }
  const auto message = EncodeAttendRequest(request, nullptr);
  ASSERT_TRUE(message.ok()) << message.status();
  const attend::v1::AttendRequest sent = Reparse(*message);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(sent.options(), request.options));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(sent.results(), request.results));
  EXPECT_EQ(sent.request_id(), "r1");
  EXPECT_EQ(sent.priority(), 3);
}

TEST(EncodeAttendRequest, RefusesAMaskWithinTheOptions) {
  const Inputs inputs;
  AttendRequest request = inputs.Request();
  request.options.mutable_mask()->add_shape(2);
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeAttendRequest(request, nullptr).status()));
}

TEST(EncodeAttendRequest, RefusesMoreThanAMessageCanHold) {
  AttendRequest request;
  // Never read: the size alone decides.
  request.query.data = {reinterpret_cast<const std::byte*>(&request), size_t{1} << 31};
  const absl::Status status = EncodeAttendRequest(request, nullptr).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("2147483647"));
}

TEST(EncodeAttendRequest, HoldsOwnersAndBorrowedMemoryUntilTheMessageIsGone) {
  const Inputs inputs;
  AttendRequest request = inputs.Request();
  EXPECT_TRUE(BorrowsMemory(request));
  const auto owner = std::make_shared<int>();
  const auto borrowed = std::make_shared<int>();
  request.query.owner = owner;
  {
    const auto message = EncodeAttendRequest(request, borrowed);
    EXPECT_GT(owner.use_count(), 2);
    EXPECT_GT(borrowed.use_count(), 1);
  }
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(borrowed.use_count(), 1);
  request.key.owner = request.value.owner = request.mask->owner = request.bias->owner = owner;
  EXPECT_FALSE(BorrowsMemory(request));
}

attend::v1::AttendResponse Response() {
  attend::v1::AttendResponse response;
  response.mutable_output()->set_data_type(attend::v1::DATA_TYPE_FLOAT32);
  response.mutable_output()->add_shape(2);
  const float elements[] = {1.5F, -2};
  response.mutable_output()->set_data(elements, sizeof(elements));
  response.mutable_timings()->mutable_receive()->set_nanos(1);
  response.mutable_timings()->mutable_queue()->set_nanos(2);
  response.mutable_timings()->mutable_pack()->set_nanos(3);
  response.mutable_timings()->mutable_compute()->set_seconds(4);
  response.mutable_timings()->mutable_encode()->set_nanos(5);
  response.set_multiply_adds(6);
  response.set_request_id("r1");
  return response;
}

TEST(DecodeAttendResponse, GivesResultsAndTimings) {
  const grpc::ByteBuffer message = ToBuffer(Response());
  const auto result = DecodeAttendResponse(message);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->output.floats(), ElementsAre(1.5F, -2));
  EXPECT_THAT(result->output.shape(), ElementsAre(2));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(result->output.data().data()) % 16, 0U);
  EXPECT_FALSE(result->weights.present());
  EXPECT_EQ(result->server.receive, absl::Nanoseconds(1));
  EXPECT_EQ(result->server.queue, absl::Nanoseconds(2));
  EXPECT_EQ(result->server.pack, absl::Nanoseconds(3));
  EXPECT_EQ(result->server.compute, absl::Seconds(4));
  EXPECT_EQ(result->server.encode, absl::Nanoseconds(5));
  EXPECT_EQ(result->multiply_adds, 6);
  EXPECT_EQ(result->request_id, "r1");
  EXPECT_EQ(result->response_bytes, static_cast<int64_t>(message.Length()));
}

TEST(DecodeAttendResponse, GivesEmptyTensorsThatAreThere) {
  attend::v1::AttendResponse response;
  response.mutable_weights()->set_data_type(attend::v1::DATA_TYPE_FLOAT32);
  response.mutable_weights()->add_shape(0);
  const auto result = DecodeAttendResponse(ToBuffer(response));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->weights.present());
  EXPECT_TRUE(result->weights.floats().empty());
}

TEST(DecodeAttendResponse, RefusesBytesThatDoNotFit) {
  const std::vector<std::function<void(attend::v1::Tensor&)>> spoilers = {
      [](attend::v1::Tensor& tensor) { tensor.set_shape(0, 3); },
      [](attend::v1::Tensor& tensor) { tensor.set_shape(0, -2); },
      [](attend::v1::Tensor& tensor) { tensor.set_data_type(attend::v1::DATA_TYPE_UNSPECIFIED); },
      [](attend::v1::Tensor& tensor) { tensor.set_data_type(attend::v1::DATA_TYPE_INT64); },
      [](attend::v1::Tensor& tensor) {
        tensor.add_shape(int64_t{1} << 62);
        tensor.add_shape(4);
      }};
  for (const auto& spoil : spoilers) {
    attend::v1::AttendResponse response = Response();
    spoil(*response.mutable_output());
    const absl::Status status = DecodeAttendResponse(ToBuffer(response)).status();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("output"));
  }
}

TEST(DecodeAttendResponse, RefusesWhatIsNoMessage) {
  const grpc::Slice bytes("\x0a\xff");
  EXPECT_TRUE(absl::IsInternal(DecodeAttendResponse(grpc::ByteBuffer(&bytes, 1)).status()));
}

}  // namespace
}  // namespace attend::client
