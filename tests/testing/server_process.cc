#include "tests/testing/server_process.h"

#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace attend::testing {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(5);

std::string ProgramPath(const char* variable, const char* built) {
  const char* path = std::getenv(variable);
  return path != nullptr ? path : built;
}

bool HasFlag(const std::vector<std::string>& flags, absl::string_view name) {
  return std::any_of(flags.begin(), flags.end(), [name](const std::string& flag) {
    return absl::StartsWith(flag, absl::StrCat("--", name, "=")) || flag == absl::StrCat("--", name);
  });
}

// Calls `done` until it returns true; false after `timeout`.
bool PollUntil(const std::function<bool()>& done, absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() >= end) return false;
    absl::SleepFor(kPollInterval);
  }
  return true;
}

// A sample's name and its labels, sorted.
struct SampleName {
  std::string name;
  std::vector<std::string> labels;  // label="value"
  bool operator==(const SampleName&) const = default;
};

// Splits `a="x",b="y,z"` at the commas outside of quotes.
std::vector<std::string> SplitLabels(absl::string_view text) {
  std::vector<std::string> labels;
  std::string label;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      label += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ',' && !quoted) {
      labels.push_back(std::exchange(label, {}));
      continue;
    }
    label += text[i];
  }
  if (!label.empty()) labels.push_back(label);
  std::sort(labels.begin(), labels.end());
  return labels;
}

SampleName ParseSampleName(absl::string_view text) {
  const size_t open = text.find('{');
  const size_t close = text.rfind('}');
  if (open == absl::string_view::npos || close == absl::string_view::npos) return {std::string(text), {}};
  return {std::string(text.substr(0, open)), SplitLabels(text.substr(open + 1, close - open - 1))};
}

}  // namespace

std::string ServerProgram() { return ProgramPath("ATTEND_SERVER_PROGRAM", ATTEND_BUILT_SERVER); }

std::string ClientProgram() { return ProgramPath("ATTEND_CLIENT_PROGRAM", ATTEND_BUILT_CLIENT); }

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(Options options) {
  auto folder = TemporaryFolder::Create();
  if (!folder.ok()) return folder.status();
  std::unique_ptr<ServerProcess> server(new ServerProcess());
  server->folder_ = *std::move(folder);
  server->ready_file_ = server->folder_->File("ready.json");

  ChildProcess::Options launch;
  launch.command = {ServerProgram(), absl::StrCat("--ready_file=", server->ready_file_)};
  for (absl::string_view name : {"grpc_address", "http_address"}) {
    if (!HasFlag(options.flags, name)) launch.command.push_back(absl::StrCat("--", name, "=127.0.0.1:0"));
  }
  launch.command.insert(launch.command.end(), options.flags.begin(), options.flags.end());
  launch.environment = std::move(options.environment);
  launch.max_open_files = options.max_open_files;
  launch.standard_error = options.standard_error;
  auto process = ChildProcess::Start(std::move(launch));
  if (!process.ok()) return process.status();
  server->process_ = *std::move(process);
  if (absl::Status status = server->WaitUntilReady(options.start_timeout); !status.ok()) return status;
  return server;
}

absl::Status ServerProcess::WaitUntilReady(absl::Duration timeout) {
  bool ended = false;
  const bool done = PollUntil(
      [&] {
        if (ReadFile(ready_file_).ok()) return true;
        ended = !process_->running();
        return ended;
      },
      timeout);
  if (ended) return absl::FailedPreconditionError(absl::StrCat("the server ended: ", process_->StandardError()));
  if (!done) return absl::DeadlineExceededError(absl::StrCat("the server is not ready: ", process_->StandardError()));
  const std::string text = ReadFile(ready_file_).value_or("");
  const nlohmann::json ready = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!ready.is_object()) return absl::InternalError(absl::StrCat("the ready file is no JSON object: ", text));
  grpc_address_ = ready.value("grpc", "");
  http_address_ = ready.value("http", "");
  if (ready.value("pid", 0) != process_->pid()) {
    return absl::InternalError(absl::StrCat("the ready file names another process: ", text));
  }
  return absl::OkStatus();
}

int ServerProcess::Stop(absl::Duration timeout) {
  process_->Signal(SIGTERM);
  const absl::StatusOr<ExitStatus> exit = process_->Wait(timeout);
  return exit.ok() ? exit->code.value_or(-1) : -1;
}

absl::StatusOr<HttpAnswer> ServerProcess::Get(const std::string& path, absl::Duration timeout) const {
  httplib::Client client(absl::StrCat("http://", http_address_));
  const auto seconds = static_cast<time_t>(absl::ToInt64Seconds(timeout));
  const auto microseconds = static_cast<time_t>(absl::ToInt64Microseconds(timeout - absl::Seconds(seconds)));
  client.set_connection_timeout(seconds, microseconds);
  client.set_read_timeout(seconds, microseconds);
  const httplib::Result result = client.Get(path);
  if (!result) {
    return absl::UnavailableError(
        absl::StrCat("GET http://", http_address_, path, ": ", httplib::to_string(result.error())));
  }
  return HttpAnswer{result->status, result->body};
}

absl::StatusOr<double> ServerProcess::Metric(absl::string_view sample) const {
  const absl::StatusOr<HttpAnswer> answer = Get("/metrics");
  if (!answer.ok()) return answer.status();
  return FindMetric(answer->body, sample);
}

absl::Status ServerProcess::WaitForMetric(absl::string_view sample, const std::function<bool(double)>& condition,
                                          absl::Duration timeout) const {
  absl::StatusOr<double> value;
  const bool done = PollUntil(
      [&] {
        value = Metric(sample);
        return value.ok() && condition(*value);
      },
      timeout);
  if (done) return absl::OkStatus();
  return absl::DeadlineExceededError(value.ok() ? absl::StrCat(sample, " is still ", *value)
                                                : std::string(value.status().message()));
}

absl::Status ServerProcess::WaitForStandardError(absl::string_view text, absl::Duration timeout) const {
  if (PollUntil([&] { return absl::StrContains(process_->StandardError(), text); }, timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("no \"", text, "\" in ", process_->StandardError()));
}

absl::StatusOr<double> FindMetric(absl::string_view metrics, absl::string_view sample) {
  const SampleName wanted = ParseSampleName(sample);
  for (absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, wanted.name)) continue;
    const size_t space = line.find(' ', line.rfind('}') == absl::string_view::npos ? 0 : line.rfind('}'));
    double value = 0;
    if (space == absl::string_view::npos || !(ParseSampleName(line.substr(0, space)) == wanted)) continue;
    const std::vector<absl::string_view> numbers = absl::StrSplit(line.substr(space), ' ', absl::SkipEmpty());
    if (!numbers.empty() && absl::SimpleAtod(numbers[0], &value)) return value;
  }
  return absl::NotFoundError(absl::StrCat("no sample ", sample));
}

}  // namespace attend::testing
