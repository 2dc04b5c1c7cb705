// How the error details of an attempt travel inside an absl::Status, as the bytes that the server sent.
#ifndef ATTEND_CLIENT_STATUS_PAYLOAD_H_
#define ATTEND_CLIENT_STATUS_PAYLOAD_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/stub.h"

namespace attend::client {

// Puts the details and the request's id of `outcome` into `status`, for GetErrorDetails; nothing if there are none or
// `status` is OK.
void AttachDetails(const AttemptOutcome& outcome, absl::Status& status);

// The delay of the google.rpc.RetryInfo in `details`, a serialized google.rpc.Status; nothing if there is none.
std::optional<absl::Duration> DecodeRetryDelay(const std::string& details);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_STATUS_PAYLOAD_H_
