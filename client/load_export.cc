#include "client/load_export.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace attend::client {
namespace {

using Json = nlohmann::ordered_json;

// The numbers of one length, in the order of columns.
std::vector<std::pair<const char*, Json>> Columns(const LengthFigures& length) {
  const auto seconds = [](absl::Duration duration) { return Json(absl::ToDoubleSeconds(duration)); };
  const ServerTimings& server = length.server;
  return {{"key_length", length.key_length},
          {"query_length", length.query_length},
          {"ok", length.ok},
          {"failed", length.failed},
          {"unsent", length.unsent},
          {"abandoned", length.abandoned},
          {"elapsed_seconds", seconds(length.elapsed)},
          {"requests_per_second", length.requests_per_second},
          {"tokens_per_second", length.tokens_per_second},
          {"gflops", length.gflops},
          {"megabytes_per_second", length.megabytes_per_second},
          {"latency_p50_seconds", seconds(length.p50)},
          {"latency_p90_seconds", seconds(length.p90)},
          {"latency_p99_seconds", seconds(length.p99)},
          {"latency_max_seconds", seconds(length.max)},
          {"latency_mean_seconds", seconds(length.mean)},
          {"server_receive_mean_seconds", seconds(server.receive)},
          {"server_queue_mean_seconds", seconds(server.queue)},
          {"server_pack_mean_seconds", seconds(server.pack)},
          {"server_compute_mean_seconds", seconds(server.compute)},
          {"server_encode_mean_seconds", seconds(server.encode)}};
}

Json VerificationJson(const LengthFigures& length) {
  Json json = {{"passed", length.verification->passed() && length.differing_answers == 0},
               {"rows", length.verification->rows},
               {"total_rows", length.verification->total_rows},
               {"differing_answers", length.differing_answers},
               {"worst", Json::array()}};
  for (const WorstElement& worst : length.verification->worst) {
    json["worst"].push_back({{"element", worst.name}, {"error", worst.error}, {"bound", worst.bound}});
  }
  return json;
}

}  // namespace

std::string LoadJson(const LoadReport& report) {
  Json json = {{"address", report.address},
               {"server_version", report.server_version},
               {"instruction_set", report.instruction_set},
               {"compute_threads", report.compute_threads},
               {"problem", report.problem},
               {"load", report.load},
               {"seed", report.seed},
               {"interrupted", report.interrupted},
               {"lengths", Json::array()}};
  for (const LengthFigures& length : report.lengths) {
    Json entry = Json::object();
    for (auto& [name, value] : Columns(length)) entry[name] = std::move(value);
    entry["errors"] = Json::object();
    for (const auto& [code, count] : length.errors) entry["errors"][absl::StatusCodeToString(code)] = count;
    if (length.verification) entry["verification"] = VerificationJson(length);
    json["lengths"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string LoadCsv(const LoadReport& report) {
  std::vector<std::string> header;
  for (const auto& [name, value] : Columns(LengthFigures{})) header.emplace_back(name);
  std::string text = absl::StrJoin(header, ",") + "\n";
  for (const LengthFigures& length : report.lengths) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : Columns(length)) {
      cells.push_back(value.is_number_integer() ? absl::StrCat(value.get<int64_t>())
                                                : absl::StrFormat("%.9g", value.get<double>()));
    }
    absl::StrAppend(&text, absl::StrJoin(cells, ","), "\n");
  }
  return text;
}

}  // namespace attend::client
