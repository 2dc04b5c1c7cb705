// The figures of a load test as a picture: throughput and latency against sequence length.
#ifndef ATTEND_CLIENT_LOAD_CHART_H_
#define ATTEND_CLIENT_LOAD_CHART_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/load_report.h"

namespace attend::client {

// What gnuplot is told: two panels over a logarithmic axis of lengths, in the format that the end of `path` names
// (.png, else SVG), written to `output`. Lengths without an answer are left out.
std::string ChartScript(const LoadReport& report, absl::string_view path, absl::string_view output);

// Draws the chart with gnuplot and puts it at `path`, whole or not at all. NOT_FOUND if there is no gnuplot,
// FAILED_PRECONDITION if nothing was measured, INTERNAL with gnuplot's own words if it fails, else PendingFile's
// errors.
absl::Status WriteChart(const LoadReport& report, const std::string& path);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_CHART_H_
