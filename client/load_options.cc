#include "client/load_options.h"

#include <functional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/command_options.h"
#include "client/commands.h"
#include "client/element_rounding.h"

namespace attend::client {
namespace {

constexpr char kProblem[] = "Problem";
constexpr char kLoad[] = "Load, for each length";
constexpr char kReports[] = "Checking and reports";

constexpr double kMaxRate = 100000;  // calls a second: more than one thread sends

CLI::Option* AddDuration(CLI::App& command, const std::string& name, bool positive,
                         std::function<void(absl::Duration)> set, const std::string& description) {
  CLI::Option* option = command.add_option_function<std::string>(
      name,
      [set = std::move(set)](const std::string& text) {
        absl::Duration parsed;
        if (absl::ParseDuration(text, &parsed)) set(parsed);
      },
      description);
  return option->type_name("DURATION")->check([positive](const std::string& text) {
    absl::Duration parsed;
    const bool good = absl::ParseDuration(text, &parsed) && parsed != absl::InfiniteDuration() &&
                      parsed >= absl::ZeroDuration() && !(positive && parsed == absl::ZeroDuration());
    return good ? std::string() : absl::StrCat("'", text, "' is not a duration such as 30s or 1m30s");
  });
}

void AddMix(CLI::App& command, LoadOptions& options) {
  CLI::Option* mix = command.add_option_function<std::string>(
      "--mix",
      [&options](const std::string& text) {
        const auto parsed = ParseLengthMix(text);
        if (!parsed.ok()) return;
        options.mix = *parsed;
        options.lengths.clear();
        for (const MixedLength& mixed : *parsed) options.lengths.push_back(mixed.length);
      },
      "Lengths and their shares of the calls of one load, such as 128:0.9,16384:0.1; each is measured alone first");
  mix->type_name("N:X,N:X")->check(
      [](const std::string& text) { return std::string(ParseLengthMix(text).status().message()); });
  mix->excludes("--lengths");
}

void AddProblem(CLI::App& command, LoadOptions& options) {
  command.option_defaults()->group(kProblem);
  AddListOption(command, "--lengths", options.lengths, "Sequence lengths to try, such as 128,256,512,1024,2048",
                int64_t{1});
  AddMix(command, options);
  AddShapeOptions(command, options);
  command.add_option("--softcap", options.softcap, "c > 0: scores become c * tanh(scores / c)")->type_name("C");
  command.add_flag("--weights", options.weights, "Ask for the attention weights as well");
  AddNumberOption(command, "--seed", options.seed, 0, "The same seed gives the same inputs: normal random numbers")
      ->capture_default_str();
}

void AddLoad(CLI::App& command, LoadOptions& options) {
  command.option_defaults()->group(kLoad);
  AddNumberOption(command, "--connections", options.connections, 1, "Connections to the server, used in turn")
      ->capture_default_str();
  CLI::Option* concurrency = AddNumberOption(command, "--concurrency", options.concurrency, 1,
                                             "Closed loop: calls in flight, the next follows an answer. Default: 1");
  CLI::Option* rate = command.add_option("--rate", options.rate,
                                         "Open loop: calls a second, whatever the server does; latency counts from "
                                         "when a call was due");
  rate->check(InRange(1e-3, kMaxRate))->type_name("X")->excludes(concurrency);
  AddNumberOption(command, "--max_in_flight", options.max_in_flight, 1, "Open loop: calls in flight at most")
      ->capture_default_str()
      ->needs(rate);
  CLI::Option* duration = AddDuration(
      command, "--duration", true, [&options](absl::Duration parsed) { options.duration = parsed; },
      "How long calls are sent, such as 10s. Default: 5s");
  AddNumberOption(command, "--count", options.count, 1, "How many calls are sent, instead of a duration")
      ->excludes(duration);
  AddDuration(
      command, "--warmup", false, [&options](absl::Duration parsed) { options.warmup = parsed; },
      "How long calls are sent before they are measured; 0: not at all. Default: 500ms");
}

void AddReports(CLI::App& command, LoadOptions& options) {
  command.option_defaults()->group(kReports);
  CLI::Option* verify =
      command.add_flag("--verify", options.verify,
                       "Recompute rows of an answer here in double precision, and compare the bits of "
                       "all answers; fail if they differ");
  AddNumberOption(command, "--verify_rows", options.verify_rows, 0, "How many rows --verify looks at; 0: all")
      ->capture_default_str()
      ->needs(verify);
  command.add_option("--json", options.json, "Where to write all figures as JSON")->type_name("FILE");
  command.add_option("--csv", options.csv, "Where to write them as CSV")->type_name("FILE");
  command.add_option("--chart", options.chart, "Where to draw them, .svg or .png (needs gnuplot)")->type_name("FILE");
}

std::string Counted(int64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

absl::Status LoadOptions::Validate() const {
  if (lengths.empty()) return UsageError("--lengths or --mix is required");
  if (absl::Status status = ValidateShape(); !status.ok()) return status;
  std::set<std::string> paths;
  for (const std::string& path : {json, csv, chart}) {
    if (!path.empty() && !paths.insert(path).second) {
      return UsageError(absl::StrCat(path, " is named for two reports"));
    }
  }
  if (!chart.empty() && !absl::EndsWith(chart, ".svg") && !absl::EndsWith(chart, ".png")) {
    return UsageError(absl::StrCat("--chart is ", chart, ", must end in .svg or .png"));
  }
  return absl::OkStatus();
}

std::string LoadOptions::ProblemText() const {
  std::string text = batch == 1 ? "" : absl::StrCat("batch ", batch, ", ");
  absl::StrAppend(&text, Counted(heads, "head"));
  if (KvHeads() != heads) absl::StrAppend(&text, " on ", KvHeads());
  absl::StrAppend(&text, ", dim ", head_dim);
  if (ValueDim() != head_dim) absl::StrAppend(&text, " and ", ValueDim());
  absl::StrAppend(&text, ", ", DataTypeName(element_type));
  if (causal == v1::CAUSAL_ALIGNMENT_TOP_LEFT) absl::StrAppend(&text, ", causal top_left");
  if (causal == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT) absl::StrAppend(&text, ", causal bottom_right");
  if (window_left) absl::StrAppend(&text, ", window_left ", *window_left);
  if (window_right) absl::StrAppend(&text, ", window_right ", *window_right);
  if (softcap != 0) absl::StrAppend(&text, ", softcap ", softcap);
  if (compute_type == v1::COMPUTE_TYPE_BF16) absl::StrAppend(&text, ", bf16 products");
  if (query_length) absl::StrAppend(&text, ", query_length ", *query_length);
  if (weights) absl::StrAppend(&text, ", with weights");
  return text;
}

std::string LoadOptions::LoadText() const {
  const std::string load =
      rate ? absl::StrCat(*rate, " calls/s") : absl::StrCat(Counted(InFlight(), "call"), " in flight");
  return absl::StrCat(load, " on ", Counted(connections, "connection"));
}

void AddLoadOptions(CLI::App& command, LoadOptions& options) {
  AddProblem(command, options);
  AddLoad(command, options);
  AddReports(command, options);
}

}  // namespace attend::client
