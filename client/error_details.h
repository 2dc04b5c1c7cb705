// What a failed call says to programs, beyond code and message: google.rpc's error details, as the service sends them.
#ifndef ATTEND_CLIENT_ERROR_DETAILS_H_
#define ATTEND_CLIENT_ERROR_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attend::client {

// A text is empty where the server sent none.
struct ErrorDetails {
  std::string field;                          // the path of what is wrong in the request: "query.shape[3]"
  std::string reason;                         // an UPPER_SNAKE word from docs/protocol.md: "DIM_OUT_OF_RANGE"
  std::string value;                          // what it is: "0"
  std::string limit;                          // what it must be: "[1, 1024]"
  std::string request_id;                     // of the call: what to look for in the server's log
  std::optional<absl::Duration> retry_delay;  // when to try again
};

// The details that a status from Client carries; nothing if it carries none (OK, and failures that no server answered).
// Thread-safe.
std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ERROR_DETAILS_H_
