// Errors on the wire: an absl::Status as gRPC's, with details that programs can read.
#ifndef ATTEND_SERVER_STATUS_DETAILS_H_
#define ATTEND_SERVER_STATUS_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/violation.h"
#include "grpcpp/support/status.h"

namespace attend::server {

// The domain of our google.rpc.ErrorInfo.
inline constexpr absl::string_view kErrorDomain = "attend.v1";

// A status of any code that carries `violation` as core::InvalidArgument's does: for UNIMPLEMENTED, and for limits that
// RESOURCE_EXHAUSTED names.
absl::Status StatusWithViolation(absl::StatusCode code, const core::Violation& violation, absl::string_view message);

// What goes onto the wire besides the status itself.
struct ErrorContext {
  absl::string_view request_id;               // named where the message is withheld; may be empty
  std::optional<absl::Duration> retry_delay;  // google.rpc.RetryInfo: present exactly where trying again makes sense
};

// The status with its code unchanged (the 17 codes of both libraries are the same numbers) and, as the contents of
// grpc-status-details-bin, a google.rpc.Status: ErrorInfo and BadRequest where there is a violation, and always with
// INVALID_ARGUMENT; RetryInfo where `context` says so. Message and details hold at most 512 bytes and under 2 KiB of
// valid UTF-8, whatever a request made them of: longer texts end in "...". The message of INTERNAL, UNKNOWN and
// DATA_LOSS is withheld: it belongs into the log.
grpc::Status ToGrpcStatus(const absl::Status& status, const ErrorContext& context = {});

}  // namespace attend::server

#endif  // ATTEND_SERVER_STATUS_DETAILS_H_
