#include "client/load_export.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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

Json LengthJson(const LengthFigures& length) {
  Json json = Json::object();
  for (auto& [name, value] : Columns(length)) json[name] = std::move(value);
  json["errors"] = Json::object();
  for (const auto& [code, count] : length.errors) json["errors"][absl::StatusCodeToString(code)] = count;
  if (length.verification) json["verification"] = VerificationJson(length);
  return json;
}

void AppendCsvLine(double mix_share, const LengthFigures& length, std::string& text) {
  for (const auto& [name, value] : Columns(length)) {
    if (value.is_number_integer()) {
      absl::StrAppend(&text, value.get<int64_t>(), ",");
    } else {
      absl::StrAppendFormat(&text, "%.9g,", value.get<double>());
    }
  }
  absl::StrAppendFormat(&text, "%.9g\n", mix_share);
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
  for (const LengthFigures& length : report.lengths) json["lengths"].push_back(LengthJson(length));
  if (!report.mix.empty()) {
    Json& mix =
        json["mix"] = {{"unsent", report.mix_unsent}, {"abandoned", report.mix_abandoned}, {"lengths", Json::array()}};
    for (const MixedFigures& mixed : report.mix) {
      Json entry = LengthJson(mixed.figures);
      entry["share"] = mixed.share;
      mix["lengths"].push_back(std::move(entry));
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string LoadCsv(const LoadReport& report) {
  std::string text;
  for (const auto& [name, value] : Columns(LengthFigures{})) absl::StrAppend(&text, name, ",");
  absl::StrAppend(&text, "mix_share\n");
  for (const LengthFigures& length : report.lengths) AppendCsvLine(0, length, text);
  for (const MixedFigures& mixed : report.mix) AppendCsvLine(mixed.share, mixed.figures, text);
  return text;
}

}  // namespace attend::client
