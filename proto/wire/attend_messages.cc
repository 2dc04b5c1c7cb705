#include "proto/wire/attend_messages.h"

#include <array>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/wire/bulk_fields.h"
#include "proto/wire/join_message.h"
#include "proto/wire/split_message.h"

namespace attend::wire {
namespace {

// Splits `bytes` and parses the small part into `message`; returns the bulk fields.
absl::StatusOr<std::vector<BulkBytes>> SplitInto(google::protobuf::MessageLite& message, const grpc::ByteBuffer& bytes,
                                                 const BulkFields& fields) {
  absl::StatusOr<SplitParts> parts = SplitMessage(bytes, fields);
  if (!parts.ok()) return parts.status();
  if (!message.ParseFromString(parts->small)) {
    return absl::InvalidArgumentError("the bytes are not a message of type " + message.GetTypeName());
  }
  return std::move(parts->bulk);
}

}  // namespace

absl::StatusOr<AttendRequestParts> SplitAttendRequest(const grpc::ByteBuffer& bytes) {
  AttendRequestParts parts;
  auto bulk = SplitInto(parts.message, bytes, AttendRequestBulkFields());
  if (!bulk.ok()) return bulk.status();
  parts.query = std::move((*bulk)[kQueryData]);
  parts.key = std::move((*bulk)[kKeyData]);
  parts.value = std::move((*bulk)[kValueData]);
  parts.mask = std::move((*bulk)[kMaskData]);
  parts.bias = std::move((*bulk)[kBiasData]);
  return parts;
}

absl::StatusOr<AttendResponseParts> SplitAttendResponse(const grpc::ByteBuffer& bytes) {
  AttendResponseParts parts;
  auto bulk = SplitInto(parts.message, bytes, AttendResponseBulkFields());
  if (!bulk.ok()) return bulk.status();
  parts.output = std::move((*bulk)[kOutputData]);
  parts.weights = std::move((*bulk)[kWeightsData]);
  parts.scores = std::move((*bulk)[kScoresData]);
  parts.logsumexp = std::move((*bulk)[kLogsumexpData]);
  return parts;
}

grpc::ByteBuffer JoinAttendRequest(const AttendRequestParts& parts) {
  std::array<BulkBytes, kRequestBulkCount> bulk;
  bulk[kQueryData] = parts.query;
  bulk[kKeyData] = parts.key;
  bulk[kValueData] = parts.value;
  bulk[kMaskData] = parts.mask;
  bulk[kBiasData] = parts.bias;
  return JoinMessage(parts.message.SerializeAsString(), bulk, AttendRequestBulkFields());
}

grpc::ByteBuffer JoinAttendResponse(const AttendResponseParts& parts) {
  std::array<BulkBytes, kResponseBulkCount> bulk;
  bulk[kOutputData] = parts.output;
  bulk[kWeightsData] = parts.weights;
  bulk[kScoresData] = parts.scores;
  bulk[kLogsumexpData] = parts.logsumexp;
  return JoinMessage(parts.message.SerializeAsString(), bulk, AttendResponseBulkFields());
}

}  // namespace attend::wire
