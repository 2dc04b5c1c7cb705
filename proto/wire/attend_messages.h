// AttendRequest and AttendResponse with their tensors' bytes apart: how servers and clients of this project read and
// write them. On the wire they are what any protobuf implementation would write.
#ifndef ATTEND_PROTO_WIRE_ATTEND_MESSAGES_H_
#define ATTEND_PROTO_WIRE_ATTEND_MESSAGES_H_

#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/bulk_bytes.h"

namespace attend::wire {

// `message` has everything but the tensors' data, which are empty in it.
struct AttendRequestParts {
  v1::AttendRequest message;
  BulkBytes query;
  BulkBytes key;
  BulkBytes value;
  BulkBytes mask;  // options.mask
  BulkBytes bias;  // options.bias
};

struct AttendResponseParts {
  v1::AttendResponse message;
  BulkBytes output;
  BulkBytes weights;
  BulkBytes scores;
  BulkBytes logsumexp;
};

// INVALID_ARGUMENT if `bytes` is not such a message; RESOURCE_EXHAUSTED if it has more than kMaxSmallBytes
// (split_message.h) besides tensor data. A buffer that is not valid() counts as the empty message.
absl::StatusOr<AttendRequestParts> SplitAttendRequest(const grpc::ByteBuffer& bytes);
absl::StatusOr<AttendResponseParts> SplitAttendResponse(const grpc::ByteBuffer& bytes);

// The message, referencing the tensors' bytes: see BulkBytes::Share for how long they must live. The result may be
// copied and sent again. `parts.message` must have no tensor data of its own.
grpc::ByteBuffer JoinAttendRequest(const AttendRequestParts& parts);
grpc::ByteBuffer JoinAttendResponse(const AttendResponseParts& parts);

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_ATTEND_MESSAGES_H_
