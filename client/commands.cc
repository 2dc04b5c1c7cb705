#include "client/commands.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace attend::client {
namespace {

constexpr char kUsageErrorPayload[] = "attend.client/usage-error";
constexpr int kFailure = 1;
constexpr int kBadCommandLine = 2;

// Help within 80 columns; that of a subcommand shows the options that it shares with the others as well.
class HelpFormatter final : public CLI::Formatter {
 public:
  static constexpr char kConnectionGroup[] = "Connection, for every command";

  HelpFormatter() { column_width(kColumn); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    if (app->get_parent() != nullptr && app->get_fallthrough()) {
      const auto shared = app->get_parent()->get_options(
          [](const CLI::Option* option) { return option->get_group() == kConnectionGroup; });
      absl::StrAppend(&help, make_group(kConnectionGroup, false, shared).substr(1));
    }
    return absl::StrReplaceAll(help, {{"\n\n\n", "\n\n"}});
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return Wrap(CLI::Formatter::make_option_desc(option));
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream line;
    CLI::detail::format_help(line, command->get_name(), Wrap(command->get_description()), kColumn);
    return line.str();
  }

 private:
  static constexpr size_t kColumn = 30;
  static constexpr size_t kLine = 80;

  // Breaks between words; format_help indents what follows a break.
  static std::string Wrap(absl::string_view text) {
    std::string wrapped;
    size_t line = 0;
    for (const absl::string_view word : absl::StrSplit(text, ' ')) {
      const bool fits = line + 1 + word.size() <= kLine - kColumn;
      if (line > 0) absl::StrAppend(&wrapped, fits ? " " : "\n");
      line = line > 0 && fits ? line + 1 + word.size() : word.size();
      absl::StrAppend(&wrapped, word);
    }
    return wrapped;
  }
};

// CLI11's sentences begin with a capital, ours follow "attend: ".
std::string BadCommandLine(const CLI::App& app, absl::string_view reason) {
  std::string text(reason);
  if (text.size() > 1 && absl::ascii_islower(text[1])) text[0] = absl::ascii_tolower(text[0]);
  const std::vector<const CLI::App*> commands =
      app.get_subcommands([](const CLI::App* command) { return command->parsed(); });
  const std::string command = commands.empty() ? "" : absl::StrCat(commands.front()->get_name(), " ");
  return absl::StrCat("attend: ", absl::StrReplaceAll(text, {{"\n", " "}}), " (attend ", command, "--help tells more)");
}

bool ParseDuration(const std::string& text, absl::Duration& duration) {
  absl::Duration parsed;
  if (!absl::ParseDuration(text, &parsed) || parsed <= absl::ZeroDuration() || parsed == absl::InfiniteDuration()) {
    return false;
  }
  duration = parsed;
  return true;
}

CLI::Option* AddDuration(CLI::App& command, const std::string& name, std::function<void(absl::Duration)> set,
                         const std::string& description) {
  CLI::Option* option = command.add_option_function<std::string>(
      name,
      [set = std::move(set)](const std::string& text) {
        absl::Duration duration;
        if (ParseDuration(text, duration)) set(duration);
      },
      description);
  option->type_name("DURATION");
  option->check([](const std::string& text) {
    absl::Duration duration;
    return ParseDuration(text, duration) ? std::string()
                                         : absl::StrCat("'", text, "' is not a duration such as 30s or 1m30s");
  });
  return option;
}

// An option of the connection that is a text, and the variable that holds where it is not given. Those of security are
// named unlike the server's own settings: both may stand in the environment of one container.
struct FrameText {
  const char* flag;
  const char* type;
  const char* variable;
  const char* description;
  std::string& value;
};

std::vector<FrameText> FrameTexts(Connection& connection) {
  SecurityOptions& security = connection.security;
  return {
      {"--address", "TARGET", "ATTEND_ADDRESS", "Any gRPC target, such as ipv4:10.0.0.1:8001,10.0.0.2:8001",
       connection.address},
      {"--tls_ca", "PATH", "ATTEND_CLIENT_TLS_CA",
       "Authorities of the server's certificate (PEM); this and the next three mean TLS", security.tls_ca},
      {"--tls_cert", "PATH", "ATTEND_CLIENT_TLS_CERT", "This client's certificate (PEM), for mutual TLS",
       security.tls_cert},
      {"--tls_key", "PATH", "ATTEND_CLIENT_TLS_KEY", "The key of that certificate (PEM)", security.tls_key},
      {"--tls_server_name", "NAME", "ATTEND_CLIENT_TLS_SERVER_NAME",
       "The name in the server's certificate, where it is not the host of the address", security.tls_server_name},
      {"--token_file", "PATH", "ATTEND_CLIENT_TOKEN_FILE", "A file that holds the token to send with every call",
       security.token_file},
  };
}

// A UsageError if one of the frame's own options is on the command line.
absl::Status CheckNoOptionGiven(const CLI::App& frame, absl::string_view command) {
  for (const CLI::Option* option : frame.get_options()) {
    if (option->count() > 0) {
      return UsageError(absl::StrCat(option->get_name(), " does not go with ", command, ", which needs no server"));
    }
  }
  return absl::OkStatus();
}

void PrintLine(absl::string_view line) { std::cerr << line << '\n'; }

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Connection::Connect() const {
  if (security.tls_cert.empty() != security.tls_key.empty()) {
    return UsageError("--tls_cert and --tls_key must be given together");
  }
  return Client::Create({.target = address, .security = security});
}

CallOptions Connection::Call(absl::Duration default_timeout) const {
  return {.timeout = timeout.value_or(default_timeout), .fail_fast = true};
}

Commands::Commands()
    : app_(
          std::make_unique<CLI::App>("Scaled dot-product attention from a service: asks an attend-server.", "attend")) {
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->set_version_flag("--version", "attend " ATTEND_VERSION, "Print the version and exit");
  app_->set_help_flag("-h,--help", "Print this help and exit");
  for (const FrameText& option : FrameTexts(connection_)) {
    app_->add_option(option.flag, option.value,
                     absl::StrCat(option.description, "; $", option.variable, " if not given"))
        ->type_name(option.type)
        ->capture_default_str()
        ->group(HelpFormatter::kConnectionGroup);
  }
  AddDuration(
      *app_, "--timeout", [this](absl::Duration timeout) { connection_.timeout = timeout; },
      absl::StrCat("How long a call may take, retries included; default ", absl::FormatDuration(kDefaultTimeout),
                   ", for health and info ", absl::FormatDuration(kProbeTimeout)))
      ->group(HelpFormatter::kConnectionGroup);
}

Commands::~Commands() = default;

CLI::App& Commands::Add(const std::string& name, const std::string& description, Action run) {
  CLI::App* command = app_->add_subcommand(name, description);
  command->fallthrough();
  command->callback([this, run = std::move(run)] { chosen_ = [this, run] { return run(connection_); }; });
  return *command;
}

CLI::App& Commands::AddLocal(const std::string& name, const std::string& description,
                             std::function<absl::Status()> run) {
  CLI::App* command = app_->add_subcommand(name, description);
  command->fallthrough(false);  // options of the frame are unknown to it
  command->callback([this, name, run = std::move(run)] {
    chosen_ = [this, name, run] {
      const absl::Status status = CheckNoOptionGiven(*app_, name);  // before the command
      return status.ok() ? run() : status;
    };
  });
  return *command;
}

int Commands::Run(int argc, const char* const* argv) {
  for (const FrameText& option : FrameTexts(connection_)) {
    const char* const value = std::getenv(option.variable);
    if (value != nullptr && *value != '\0') option.value = value;
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return app_->exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    // CLI11 says only that a subcommand is missing.
    const std::vector<std::string> unknown = app_->remaining();
    const bool no_command = app_->get_subcommands().empty() && !unknown.empty();
    PrintLine(BadCommandLine(
        *app_, no_command
                   ? absl::StrCat("there is no ", absl::StartsWith(unknown.front(), "-") ? "option '" : "command '",
                                  unknown.front(), "'")
                   : std::string(error.what())));
    return kBadCommandLine;
  }
  const absl::Status status = chosen_();
  std::cout.flush();
  if (!status.ok()) {
    PrintLine(FailureLine(status));
    return status.GetPayload(kUsageErrorPayload) ? kBadCommandLine : kFailure;
  }
  if (!std::cout) {
    PrintLine("attend: the results could not be written to standard output");
    return kFailure;
  }
  return 0;
}

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageErrorPayload, absl::Cord());
  return status;
}

CLI::Option* AddDurationOption(CLI::App& command, const std::string& name, absl::Duration& duration,
                               const std::string& description) {
  return AddDuration(
             command, name, [&duration](absl::Duration parsed) { duration = parsed; }, description)
      ->default_str(absl::FormatDuration(duration));
}

std::string FailureLine(const absl::Status& status) {
  std::string line = absl::StrCat("attend: ", absl::StrReplaceAll(status.message(), {{"\n", " "}}));
  const std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details) return line;
  absl::StrAppend(&line, " (", absl::StatusCodeToString(status.code()));
  if (!details->request_id.empty()) absl::StrAppend(&line, ", request ", details->request_id);
  return line + ")";
}

}  // namespace attend::client
