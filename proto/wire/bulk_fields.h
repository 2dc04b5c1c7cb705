// Which fields of which message hold bulk bytes: what SplitMessage leaves out and JoinMessage puts in.
#ifndef ATTEND_PROTO_WIRE_BULK_FIELDS_H_
#define ATTEND_PROTO_WIRE_BULK_FIELDS_H_

#include <cstdint>
#include <span>

namespace attend::wire {

// A field on the way to bulk bytes: either a singular bytes field that holds them, or a singular message field with
// such fields inside it.
struct BulkField {
  uint32_t number = 0;
  int bulk_index = -1;                // of a bytes field: its place among the bulk fields of the message; else -1
  std::span<const BulkField> fields;  // of a message field: the fields on the way within it
};

// The bulk fields of one message type.
struct BulkFields {
  std::span<const BulkField> fields;
  int count = 0;  // bulk_index is in [0, count)
};

// attend.v1.AttendRequest.
enum RequestBulk { kQueryData, kKeyData, kValueData, kMaskData, kBiasData, kRequestBulkCount };
BulkFields AttendRequestBulkFields();

// attend.v1.AttendResponse.
enum ResponseBulk { kOutputData, kWeightsData, kScoresData, kLogsumexpData, kResponseBulkCount };
BulkFields AttendResponseBulkFields();

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_BULK_FIELDS_H_
