#include "proto/wire/join_message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attend/v1/attention.pb.h"
#include "proto/wire/attend_messages.h"

namespace attend::wire {
namespace {

std::string Contents(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string contents;
  for (const grpc::Slice& slice : slices) contents.append(slice.begin(), slice.end());
  return contents;
}

BulkBytes Bulk(const std::string& contents) {
  BulkBytes bytes;
  bytes.Append(grpc::Slice(contents));
  return bytes;
}

void Shape(v1::Tensor& tensor) {
  tensor.set_data_type(v1::DATA_TYPE_BFLOAT16);
  tensor.add_shape(3);
  tensor.add_shape(1'000'000);
}

TEST(JoinMessageTest, RequestIsWhatTheGeneratedCodeWrites) {
  AttendRequestParts parts;
  v1::AttendRequest& message = parts.message;
  for (v1::Tensor* tensor : {message.mutable_query(), message.mutable_key(), message.mutable_value(),
                             message.mutable_options()->mutable_mask(), message.mutable_options()->mutable_bias()}) {
    Shape(*tensor);
  }
  message.mutable_options()->set_layout(v1::LAYOUT_BNHD);
  message.mutable_results()->set_logsumexp(true);
  message.set_request_id("id");
  v1::AttendRequest expected = message;
  expected.mutable_query()->set_data(std::string(200, 'q'));
  expected.mutable_key()->set_data("k");
  expected.mutable_value()->set_data(std::string(20000, 'v'));
  expected.mutable_options()->mutable_mask()->set_data(std::string(128, 'm'));
  expected.mutable_options()->mutable_bias()->set_data(std::string(127, 'b'));
  parts.query = Bulk(expected.query().data());
  parts.key = Bulk(expected.key().data());
  parts.value = Bulk(expected.value().data());
  parts.mask = Bulk(expected.options().mask().data());
  parts.bias = Bulk(expected.options().bias().data());
  EXPECT_EQ(Contents(JoinAttendRequest(parts)), expected.SerializeAsString());
}

TEST(JoinMessageTest, ResponseOfAnySizeIsWhatTheGeneratedCodeWrites) {
  for (const int size : {0, 1, 100, 127, 128, 16383, 16384, 2097152}) {
    AttendResponseParts parts;
    v1::AttendResponse& message = parts.message;
    Shape(*message.mutable_output());
    Shape(*message.mutable_logsumexp());
    message.mutable_timings()->mutable_queue()->set_nanos(5);
    message.set_multiply_adds(1'000'000'000'000);
    v1::AttendResponse expected = message;
    expected.mutable_output()->set_data(std::string(static_cast<size_t>(size), 'o'));
    expected.mutable_logsumexp()->set_data("l");
    parts.output = Bulk(expected.output().data());
    parts.logsumexp = Bulk("l");
    EXPECT_EQ(Contents(JoinAttendResponse(parts)), expected.SerializeAsString()) << size;
  }
}

TEST(JoinMessageTest, MakesTheMessagesThatAreMissing) {
  AttendRequestParts parts;
  parts.message.set_request_id("id");
  parts.query = Bulk("q");
  parts.bias = Bulk("b");
  v1::AttendRequest expected;
  expected.set_request_id("id");
  expected.mutable_query()->set_data("q");
  expected.mutable_options()->mutable_bias()->set_data("b");
  v1::AttendRequest joined;
  ASSERT_TRUE(joined.ParseFromString(Contents(JoinAttendRequest(parts))));
  EXPECT_EQ(joined.SerializeAsString(), expected.SerializeAsString());
}

TEST(JoinMessageTest, EmptyStaysEmpty) { EXPECT_EQ(JoinAttendRequest({}).Length(), 0U); }

TEST(JoinMessageTest, ReferencesBulkBytesInsteadOfCopyingThem) {
  const std::string memory(100'000, 'o');
  AttendResponseParts parts;
  parts.output = BulkBytes::Share(memory.data(), static_cast<int64_t>(memory.size()), nullptr);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(JoinAttendResponse(parts).Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[1].begin(), reinterpret_cast<const uint8_t*>(memory.data()));
}

TEST(JoinMessageTest, SplitUndoesJoin) {
  AttendResponseParts parts;
  Shape(*parts.message.mutable_weights());
  Shape(*parts.message.mutable_scores());
  parts.message.set_request_id("id");
  parts.weights = Bulk("weights");
  parts.scores = Bulk("scores");
  const auto split = SplitAttendResponse(JoinAttendResponse(parts));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->message.SerializeAsString(), parts.message.SerializeAsString());
  EXPECT_EQ(split->weights.size(), 7);
  EXPECT_EQ(split->scores.size(), 6);
  EXPECT_TRUE(split->output.empty());
  EXPECT_TRUE(split->logsumexp.empty());
}

}  // namespace
}  // namespace attend::wire
