// The frame of the `attend` command: what its subcommands share, and how one is added.
//
//   void AddDemoCommand(Commands& commands) {
//     auto options = std::make_shared<DemoOptions>();  // shared: filled while parsing, read when run
//     CLI::App& command = commands.Add("demo", "Shows ...", [options](const Connection& connection) {
//       return RunDemo(*options, connection);
//     });
//     command.add_flag("--plain", options->plain, "...");
//   }
//
// Results go to stdout, everything else (progress, warnings) to stderr. A command that fails returns a status: the
// frame prints it as one line and exits with 1; with 2 for a UsageError and for what CLI11 itself refuses.
#ifndef ATTEND_CLIENT_COMMANDS_H_
#define ATTEND_CLIENT_COMMANDS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/attend_client.h"
#include "client/cli11_names.h"

namespace attend::client {

// How long commands that only ask how a server is wait for it by default.
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(5);

// How to reach the server, as --address, --timeout, --tls_* and --token_file (or the environment) say.
struct Connection {
  std::string address = kDefaultTarget;
  SecurityOptions security;
  std::optional<absl::Duration> timeout;  // absent: the command's own default

  // A client with connections of its own. A usage error for --tls_cert without --tls_key; INVALID_ARGUMENT for a file
  // that cannot be used.
  absl::StatusOr<std::unique_ptr<Client>> Connect() const;
  // For calls of a command: they fail fast where no server is.
  CallOptions Call(absl::Duration default_timeout = kDefaultTimeout) const;
};

// Registers subcommands and runs the one that was asked for.
class Commands {
 public:
  using Action = std::function<absl::Status(const Connection&)>;

  Commands();
  ~Commands();

  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // Adds subcommand `name`; `run` is called after everything was parsed. Add the command's own options to the result;
  // those of the connection are there already.
  CLI::App& Add(const std::string& name, const std::string& description, Action run);

  // The same for a command that needs no server: it has no options of a connection.
  CLI::App& AddLocal(const std::string& name, const std::string& description, std::function<absl::Status()> run);

  // Parses and runs. Returns the exit code: 0, 1 for a failure, 2 for a bad command line.
  int Run(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Connection connection_;
  std::function<absl::Status()> chosen_;
};

// A bad command line that only the command itself can see ("--rate and --concurrency exclude each other"): exit code 2.
absl::Status UsageError(absl::string_view message);

// An option whose value is a duration as Abseil writes it: "30s", "1m30s", "250ms"; positive and finite.
CLI::Option* AddDurationOption(CLI::App& command, const std::string& name, absl::Duration& duration,
                               const std::string& description);

// What the frame prints for a failure: one line, with the code and the request's id where the server sent them.
std::string FailureLine(const absl::Status& status);

// The subcommands, each in the file of its name.
void AddDemoCommand(Commands& commands);
void AddHealthCommand(Commands& commands);
void AddServerInfoCommand(Commands& commands);
void AddGenerateCommand(Commands& commands);
void AddInferCommand(Commands& commands);
void AddLoadCommand(Commands& commands);
void AddEstimateCommand(Commands& commands);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_COMMANDS_H_
