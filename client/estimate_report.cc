#include "client/estimate_report.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/byte_size.h"
#include "client/element_rounding.h"

namespace attend::client {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kLargest : sum;
}

// What a server takes.
struct Limits {
  int64_t message = std::numeric_limits<int32_t>::max();  // gRPC carries no more
  absl::string_view message_name = "no message of gRPC is longer";
  int64_t memory = kLargest;
  int64_t dim = 1024;
};

Limits LimitsOf(const Estimate& estimate) {
  if (!estimate.server) return {};
  const v1::GetServerInfoResponse& about = estimate.server->about;
  return {.message = about.max_message_bytes(),
          .message_name = "max_message_bytes",
          .memory = about.memory_budget_bytes(),
          .dim = about.max_head_dim()};
}

std::string Row(absl::string_view name, absl::string_view figure, absl::string_view more = "") {
  std::string row = absl::StrFormat("  %-20s%-14s%s", name, figure, more);
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

std::string CausalName(v1::CausalAlignment causal) {
  if (causal == v1::CAUSAL_ALIGNMENT_TOP_LEFT) return "top_left";
  return causal == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT ? "bottom_right" : "none";
}

std::string Counted(int64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

std::string ProblemText(const PlannedProblem& problem) {
  const AxisLengths& axes = problem.axes;
  std::string text = axes.batch == 1 ? "" : absl::StrCat("batch ", axes.batch, ", ");
  absl::StrAppend(&text, Counted(axes.query_heads, "head", "heads"));
  if (axes.kv_heads != axes.query_heads) absl::StrAppend(&text, " on ", axes.kv_heads);
  absl::StrAppend(&text, ", ", Counted(axes.query_length, "query", "queries"), " x ",
                  Counted(axes.key_length, "key", "keys"), ", dim ", axes.head_dim);
  if (axes.value_dim != axes.head_dim) absl::StrAppend(&text, " and ", axes.value_dim);
  absl::StrAppend(&text, ", ", DataTypeName(problem.element_type));
  if (CausalName(problem.causal) != "none") absl::StrAppend(&text, ", causal ", CausalName(problem.causal));
  if (problem.window_left >= 0) absl::StrAppend(&text, ", window_left ", problem.window_left);
  if (problem.window_right >= 0) absl::StrAppend(&text, ", window_right ", problem.window_right);
  if (problem.compute_type == v1::COMPUTE_TYPE_BF16) absl::StrAppend(&text, ", bf16 products");
  return text;
}

using NamedSizes = std::vector<std::pair<const char*, int64_t>>;

NamedSizes InputSizes(const TensorSizes& sizes) {
  return {{"query", sizes.query}, {"key", sizes.key}, {"value", sizes.value}};
}

NamedSizes ResultSizes(const TensorSizes& sizes) {
  return {
      {"output", sizes.output}, {"weights", sizes.weights}, {"scores", sizes.scores}, {"logsumexp", sizes.logsumexp}};
}

// "query 64 MiB, key 32 MiB", of those that there are.
std::string SizesText(const NamedSizes& sizes) {
  std::vector<std::string> parts;
  for (const auto& [name, bytes] : sizes) {
    if (bytes > 0) parts.push_back(absl::StrCat(name, " ", ByteSize(bytes)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string CostText(const Estimate& estimate) {
  const ProblemCost& cost = estimate.cost;
  const bool asked = cost.sizes.weights > 0 || cost.sizes.scores > 0;
  const std::string packed = estimate.working.packed == 0
                                 ? "keys and values are read where they lie"
                                 : absl::StrCat("of it packed keys and values ", ByteSize(estimate.working.packed));
  return absl::StrCat(
      Row("multiply-adds", absl::StrFormat("%.4g", static_cast<double>(cost.multiply_adds)), "of both products"),
      Row("scores a head", absl::StrFormat("%.4g", static_cast<double>(cost.scores_per_head))),
      Row("N x N matrix", ByteSize(cost.score_matrix),
          asked ? "the scores of all heads in f32; what of it is asked for is under results"
                : "the scores of all heads in f32: never stored"),
      Row("inputs", ByteSize(cost.sizes.inputs()), SizesText(InputSizes(cost.sizes))),
      Row("results", ByteSize(cost.sizes.results()), SizesText(ResultSizes(cost.sizes))),
      Row("working memory", ByteSize(estimate.working.total),
          absl::StrCat(packed, "; ", estimate.setup.compute_threads, " threads, ", estimate.setup.instruction_set)),
      Row("memory in all", ByteSize(estimate.reserved()), "inputs, results and working memory"));
}

std::string Verdict(const Estimate& estimate) {
  const std::vector<std::string> refusals = estimate.refusals();
  if (refusals.empty()) return Row("admitted", estimate.server ? "yes" : "unknown");
  std::string text;
  for (const std::string& refusal : refusals) {
    absl::StrAppend(&text, Row(text.empty() ? "admitted" : "", text.empty() ? "no" : "", refusal));
  }
  return text;
}

std::string ServerText(const Estimate& estimate) {
  if (!estimate.server) {
    return absl::StrCat("Without a server: ", estimate.no_server, "\n", Row("time", "unknown"), Verdict(estimate));
  }
  const v1::GetServerInfoResponse& about = estimate.server->about;
  const std::optional<double> seconds = estimate.seconds();
  return absl::StrCat("attend-server ", about.version(), " at ", estimate.server->address, "\n",
                      seconds ? Row("time", absl::StrFormat("%.3g s", *seconds),
                                    absl::StrFormat("at the %.4g G multiply-adds/s that it measured at start, alone",
                                                    about.multiply_adds_per_second() / 1e9))
                              : Row("time", "unknown", "the server does not tell its rate"),
                      Row("memory budget", ByteSize(about.memory_budget_bytes())),
                      Row("largest message", ByteSize(about.max_message_bytes())), Verdict(estimate));
}

nlohmann::ordered_json SizesJson(const NamedSizes& sizes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, bytes] : sizes) json[name] = bytes;
  return json;
}

nlohmann::ordered_json ProblemJson(const PlannedProblem& problem) {
  const AxisLengths& axes = problem.axes;
  return {{"batch", axes.batch},
          {"query_heads", axes.query_heads},
          {"kv_heads", axes.kv_heads},
          {"query_length", axes.query_length},
          {"key_length", axes.key_length},
          {"head_dim", axes.head_dim},
          {"value_dim", axes.value_dim},
          {"element_type", std::string(DataTypeName(problem.element_type))},
          {"layout", problem.layout == v1::LAYOUT_BNHD ? "bnhd" : "bhnd"},
          {"causal", CausalName(problem.causal)},
          {"window_left", problem.window_left},
          {"window_right", problem.window_right},
          {"compute_type", problem.compute_type == v1::COMPUTE_TYPE_BF16 ? "bf16" : "as the inputs"},
          {"output_type", std::string(DataTypeName(problem.OutputType()))}};
}

nlohmann::ordered_json ServerJson(const Estimate& estimate) {
  if (!estimate.server) return nullptr;
  const v1::GetServerInfoResponse& about = estimate.server->about;
  nlohmann::ordered_json json = {{"address", estimate.server->address},
                                 {"version", about.version()},
                                 {"multiply_adds_per_second", about.multiply_adds_per_second()},
                                 {"memory_budget_bytes", about.memory_budget_bytes()},
                                 {"max_message_bytes", about.max_message_bytes()}};
  json["seconds"] = estimate.seconds() ? nlohmann::ordered_json(*estimate.seconds()) : nullptr;
  json["admitted"] = estimate.refusals().empty();
  return json;
}

}  // namespace

int64_t Estimate::reserved() const {
  return SaturatingAdd(SaturatingAdd(cost.sizes.inputs(), working.total), cost.response_message);
}

std::optional<double> Estimate::seconds() const {
  if (!server || server->about.multiply_adds_per_second() <= 0) return std::nullopt;
  return static_cast<double>(cost.multiply_adds) / server->about.multiply_adds_per_second();
}

std::vector<std::string> Estimate::refusals() const {
  const Limits limits = LimitsOf(*this);
  std::vector<std::string> refusals;
  for (const auto& [name, dim] :
       {std::pair("head_dim", problem.axes.head_dim), {"value_dim", problem.axes.value_dim}}) {
    if (dim > limits.dim) refusals.push_back(absl::StrCat(name, " is ", dim, ", must be in [1, ", limits.dim, "]"));
  }
  for (const auto& [name, bytes] : {std::pair("request", cost.request_message), {"response", cost.response_message}}) {
    if (bytes <= limits.message) continue;
    refusals.push_back(absl::StrCat("the ", name, " has ", bytes, " bytes, must have at most ", limits.message, " (",
                                    limits.message_name, ")"));
  }
  if (reserved() > limits.memory) {
    refusals.push_back(absl::StrCat("computing it takes ", reserved(), " bytes of memory, must be at most ",
                                    limits.memory, " (memory_budget)"));
  }
  return refusals;
}

std::string EstimateText(const Estimate& estimate) {
  return absl::StrCat(ProblemText(estimate.problem), "\n", CostText(estimate), ServerText(estimate));
}

std::string EstimateJson(const Estimate& estimate) {
  const ProblemCost& cost = estimate.cost;
  nlohmann::ordered_json json = {{"problem", ProblemJson(estimate.problem)},
                                 {"multiply_adds", cost.multiply_adds},
                                 {"scores_per_head", cost.scores_per_head},
                                 {"score_matrix_bytes", cost.score_matrix},
                                 {"input_bytes", SizesJson(InputSizes(cost.sizes))},
                                 {"result_bytes", SizesJson(ResultSizes(cost.sizes))},
                                 {"working_bytes", estimate.working.total},
                                 {"packed_key_value_bytes", estimate.working.packed},
                                 {"reserved_bytes", estimate.reserved()},
                                 {"request_message_bytes", cost.request_message},
                                 {"response_message_bytes", cost.response_message},
                                 {"compute_threads", estimate.setup.compute_threads},
                                 {"instruction_set", estimate.setup.instruction_set}};
  json["refusals"] = estimate.refusals();
  json["server"] = ServerJson(estimate);
  if (!estimate.server) json["no_server"] = estimate.no_server;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace attend::client
