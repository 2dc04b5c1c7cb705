// What is wrong with a request, for programs to read: carried by an absl::Status, so that every layer above can hand it
// on and the outermost can put it on the wire (google.rpc.BadRequest and ErrorInfo).
#ifndef ATTEND_CORE_VIOLATION_H_
#define ATTEND_CORE_VIOLATION_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attend::core {

struct Violation {
  std::string field;   // which: a word of the vocabulary ("head_dim") in core, a path ("query.shape[3]") on the wire
  std::string reason;  // an UPPER_SNAKE word from the list in docs/protocol.md: "DIM_OUT_OF_RANGE"
  std::string value;   // what it is: "0"
  std::string limit;   // what it must be: "in [1, 1024]"
};

// INVALID_ARGUMENT whose message is `message` and whose payload is `violation`. Messages give field, value and limit:
// "head_dim is 0, must be in [1, 1024]".
absl::Status InvalidArgument(const Violation& violation, absl::string_view message);

// The same with the usual message: "<field> is <value>, must be <limit>".
absl::Status InvalidArgument(const Violation& violation);

// The violation that `status` carries, if any.
std::optional<Violation> GetViolation(const absl::Status& status);

}  // namespace attend::core

#endif  // ATTEND_CORE_VIOLATION_H_
