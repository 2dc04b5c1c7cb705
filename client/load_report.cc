#include "client/load_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attend::client {

LengthFigures MakeLengthFigures(const LoadOptions& options, int64_t length, const LoopOutcome& outcome,
                                const LoadMeasurement& seen) {
  LengthFigures figures;
  figures.key_length = length;
  figures.query_length = options.QueryLength(length);
  figures.ok = seen.ok();
  figures.failed = seen.failed();
  figures.errors = seen.errors();
  figures.messages = seen.messages();
  figures.unsent = outcome.unsent;
  figures.abandoned = outcome.abandoned;
  figures.elapsed = outcome.elapsed;

  const double seconds = absl::ToDoubleSeconds(outcome.elapsed);
  if (seconds > 0) {
    figures.requests_per_second = static_cast<double>(seen.ok()) / seconds;
    figures.tokens_per_second =
        figures.requests_per_second * static_cast<double>(options.batch) * static_cast<double>(figures.query_length);
    figures.gflops = 2e-9 * static_cast<double>(seen.multiply_adds()) / seconds;
    figures.megabytes_per_second = 1e-6 * static_cast<double>(seen.bytes()) / seconds;
  }
  const LatencyRecord& latencies = seen.latencies();
  figures.p50 = latencies.Percentile(50);
  figures.p90 = latencies.Percentile(90);
  figures.p99 = latencies.Percentile(99);
  figures.max = latencies.max();
  figures.mean = latencies.mean();
  figures.server = seen.MeanServerTimings();
  return figures;
}

std::string ErrorsText(const std::map<absl::StatusCode, int64_t>& errors) {
  if (errors.empty()) return "none";
  return absl::StrJoin(errors, ", ", [](std::string* text, const auto& error) {
    absl::StrAppend(text, absl::StatusCodeToString(error.first), " ", error.second);
  });
}

}  // namespace attend::client
