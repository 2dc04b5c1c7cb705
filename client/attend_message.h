// The client's requests and results as messages on the wire, without a copy of the tensors that are sent.
#ifndef ATTEND_CLIENT_ATTEND_MESSAGE_H_
#define ATTEND_CLIENT_ATTEND_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "absl/status/statusor.h"
#include "client/attend_client.h"

namespace attend::client {

// True if some tensor of `request` has no owner: its memory is the caller's, for the time of the call.
bool BorrowsMemory(const AttendRequest& request);

// The message, referencing the tensors' memory. Tensors without an owner are held through `borrowed`: it is let go when
// nothing of the message is left anywhere. INVALID_ARGUMENT for mask or bias within request.options, and for a message
// that gRPC cannot carry (2 GiB and more).
absl::StatusOr<grpc::ByteBuffer> EncodeAttendRequest(const AttendRequest& request,
                                                     const std::shared_ptr<const void>& borrowed);

// The results, gathered into memory of their own. INTERNAL if `message` is no AttendResponse, or a tensor's bytes do
// not fit its shape and type. Only what the message says is filled in.
absl::StatusOr<AttendResult> DecodeAttendResponse(const grpc::ByteBuffer& message);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ATTEND_MESSAGE_H_
