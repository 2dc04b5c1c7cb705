// Reads settings from the command line, the environment and a flagfile, in this order of precedence.
#ifndef ATTEND_SERVER_COMMAND_LINE_H_
#define ATTEND_SERVER_COMMAND_LINE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/settings.h"
#include "server/settings_table.h"

namespace attend::server {

// What the command line asks for.
struct CommandLine {
  Settings settings;
  // Not empty (--help, --version): print this and end with exit code 0; settings are not read then.
  std::string text;
};

// The value of an environment variable, if set; ::getenv in the program, a fake in tests.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// A setting `name` is the flag --name=value, the variable ATTEND_NAME, or a line name=value of the file that --flagfile
// (or ATTEND_FLAGFILE) names; there # begins a comment line. `arguments` are those after the program's name.
// INVALID_ARGUMENT, one line: an unknown flag or name, a bad value (and where it stands), settings that contradict each
// other, a flagfile that cannot be read.
absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string> arguments, const Environment& environment,
                                             const MachineLimits& machine);

}  // namespace attend::server

#endif  // ATTEND_SERVER_COMMAND_LINE_H_
