// Another program, run to its end with a text as its input.
#ifndef ATTEND_CLIENT_PIPED_PROGRAM_H_
#define ATTEND_CLIENT_PIPED_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attend::client {

struct PipedProgramOutcome {
  int exit_code = 0;  // 128 + n if signal n ended it
  std::string standard_error;
};

// Runs `arguments` (the first is looked for in PATH), writes `input` to its standard input and waits for its end. Its
// standard output is dropped. NOT_FOUND if there is no such program, UNAVAILABLE if it cannot be started.
absl::StatusOr<PipedProgramOutcome> RunPipedProgram(std::vector<std::string> arguments, absl::string_view input);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_PIPED_PROGRAM_H_
