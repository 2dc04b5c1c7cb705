// From an AttendRequest on the wire to an attention problem, checked to the last field.
//
// Two stages, both for a thread that may take a millisecond: ReadAttendRequest takes the bytes apart (the client's
// request_id is known from then on), DecodeAttendRequest checks everything and makes the problem. Neither copies
// tensors: InputGatherer (input_gatherer.h) does, after admission.
//
// What cannot be found without looking at every element, reject_non_finite, is NonFiniteSearch's
// (non_finite_search.h), after the gathering.
//
// Every INVALID_ARGUMENT and UNIMPLEMENTED of this file carries a core::Violation with the field's path in the request,
// a reason of docs/protocol.md, the value and the limit; ToGrpcStatus (status_details.h) puts it on the wire.
#ifndef ATTEND_SERVER_ATTEND_CODEC_H_
#define ATTEND_SERVER_ATTEND_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention_problem.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/attend_messages.h"
#include "proto/wire/bulk_bytes.h"

namespace attend::server {

// What a request's size and options are held against.
struct CodecLimits {
  int64_t max_message_bytes = 0;  // of the response; the request's own size is checked before it is read
  std::string version;            // of this server, named where something is not known
};

// A request's tensors as they arrived.
struct RequestTensors {
  wire::BulkBytes query;
  wire::BulkBytes key;
  wire::BulkBytes value;
  wire::BulkBytes mask;
  wire::BulkBytes bias;
};

// A request that can be computed as it is.
struct DecodedRequest {
  core::AttentionProblem problem;
  RequestTensors tensors;  // of exactly the problem's QueryBytes, KeyBytes, ValueBytes, MaskBytes and BiasBytes
  bool reject_non_finite = false;
  int priority = 5;        // 1 to 9
  std::string request_id;  // the client's; empty if it sent none
};

// The longest request_id, in bytes.
inline constexpr int kMaxRequestIdBytes = 128;

// INVALID_ARGUMENT (MALFORMED_MESSAGE, or FIELDS_TOO_LARGE for more than 1 MiB besides tensor data).
absl::StatusOr<wire::AttendRequestParts> ReadAttendRequest(const grpc::ByteBuffer& bytes);

// INVALID_ARGUMENT if `request_id` is longer than kMaxRequestIdBytes or has a byte that is not printable ASCII; an
// empty one is fine.
absl::Status CheckRequestId(absl::string_view request_id);

// INVALID_ARGUMENT: anything in protocol.md's "Errors" that is wrong with the request, and a response that would be
// longer than limits.max_message_bytes. UNIMPLEMENTED: a field this server does not know.
absl::StatusOr<DecodedRequest> DecodeAttendRequest(wire::AttendRequestParts parts, const CodecLimits& limits);

// The names of the fields of AttentionOptions and ResultSelection, all of which DecodeAttendRequest reads:
// GetServerInfoResponse.supported_options.
std::vector<std::string> SupportedOptions();

}  // namespace attend::server

#endif  // ATTEND_SERVER_ATTEND_CODEC_H_
