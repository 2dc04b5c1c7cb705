#include "client/load_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attend::client {
namespace {

std::string Milliseconds(absl::Duration duration) { return ShortNumber(absl::ToDoubleMilliseconds(duration)); }

std::string ClientTable(const LoadReport& report) {
  constexpr char kRow[] = "%8d %8d %10s %10s %9s %8s %8s %8s %8s %8s\n";
  std::string text = absl::StrFormat("%8s %8s %10s %10s %9s %8s %8s %8s %8s %8s\n", "length", "calls", "requests/s",
                                     "tokens/s", "GFLOP/s", "MB/s", "p50 ms", "p90 ms", "p99 ms", "max ms");
  for (const LengthFigures& length : report.lengths) {
    if (length.ok == 0) {
      absl::StrAppendFormat(&text, kRow, length.key_length, 0, "-", "-", "-", "-", "-", "-", "-", "-");
      continue;
    }
    absl::StrAppendFormat(&text, kRow, length.key_length, length.ok, ShortNumber(length.requests_per_second),
                          ShortNumber(length.tokens_per_second), ShortNumber(length.gflops),
                          ShortNumber(length.megabytes_per_second), Milliseconds(length.p50), Milliseconds(length.p90),
                          Milliseconds(length.p99), Milliseconds(length.max));
  }
  return text;
}

// The rest of a call is the way there and back, and waiting in the client.
absl::Duration OnTheWay(const LengthFigures& length) {
  const ServerTimings& server = length.server;
  const absl::Duration in_server = server.receive + server.queue + server.pack + server.compute + server.encode;
  return std::max(absl::ZeroDuration(), length.mean - in_server);
}

std::string ServerTable(const LoadReport& report) {
  constexpr char kRow[] = "%8d %9s %9s %9s %9s %9s %9s %9s  %s\n";
  std::string text = absl::StrFormat("%8s %9s %9s %9s %9s %9s %9s %9s  %s\n", "length", "mean ms", "receive", "queue",
                                     "pack", "compute", "encode", "elsewhere", "errors");
  for (const LengthFigures& length : report.lengths) {
    const std::string errors = ErrorsText(length.errors);
    if (length.ok == 0) {
      absl::StrAppendFormat(&text, kRow, length.key_length, "-", "-", "-", "-", "-", "-", "-", errors);
      continue;
    }
    const ServerTimings& server = length.server;
    absl::StrAppendFormat(&text, kRow, length.key_length, Milliseconds(length.mean), Milliseconds(server.receive),
                          Milliseconds(server.queue), Milliseconds(server.pack), Milliseconds(server.compute),
                          Milliseconds(server.encode), Milliseconds(OnTheWay(length)), errors);
  }
  return text;
}

// `load` says which load it was, if there were two.
std::string Remarks(absl::string_view load, const LengthFigures& length) {
  const std::string name = absl::StrCat(load, "length ", length.key_length);
  std::string text;
  for (const auto& [code, message] : length.messages) {
    absl::StrAppendFormat(&text, "%s: %d x %s: %s\n", name, length.errors.at(code), absl::StatusCodeToString(code),
                          message);
  }
  if (length.unsent > 0) {
    absl::StrAppendFormat(&text, "%s: due and not sent, for too many were in flight: %d\n", name, length.unsent);
  }
  if (length.abandoned > 0) {
    absl::StrAppendFormat(&text, "%s: cancelled in flight: %d\n", name, length.abandoned);
  }
  if (length.verification) {
    const bool good = length.verification->passed() && length.differing_answers == 0;
    absl::StrAppendFormat(&text, "%s: %s: %s", name, good ? "verified" : "WRONG", length.verification->Text());
    if (length.differing_answers > 0) {
      absl::StrAppendFormat(&text, "; %d of %d answers have other bits than the first", length.differing_answers,
                            length.ok);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

// What the mix did to each length: the latencies beside each other, those alone, and how many times as long they are.
std::string MixTable(const LoadReport& report) {
  constexpr char kHeader[] = "%8s %7s %8s %10s %9s %9s %11s %11s %8s %8s  %s\n";
  constexpr char kRow[] = "%8d %7s %8d %10s %9s %9s %11s %11s %8s %8s  %s\n";
  std::string text = absl::StrFormat(kHeader, "length", "share", "calls", "requests/s", "p50 ms", "p99 ms",
                                     "alone: p50", "alone: p99", "p50 x", "p99 x", "errors");
  for (size_t i = 0; i < report.mix.size(); ++i) {
    const auto& [share, beside] = report.mix[i];
    const LengthFigures& alone = report.lengths[i];
    const auto time = [](const LengthFigures& of, absl::Duration duration) {
      return of.ok == 0 ? "-" : Milliseconds(duration);
    };
    const auto ratio = [&](absl::Duration one, absl::Duration other) {
      return beside.ok == 0 || alone.ok == 0 ? "-" : ShortNumber(absl::FDivDuration(one, other));
    };
    absl::StrAppendFormat(&text, kRow, beside.key_length, ShortNumber(share), beside.ok,
                          ShortNumber(beside.requests_per_second), time(beside, beside.p50), time(beside, beside.p99),
                          time(alone, alone.p50), time(alone, alone.p99), ratio(beside.p50, alone.p50),
                          ratio(beside.p99, alone.p99), ErrorsText(beside.errors));
  }
  return text;
}

std::string MixRemarks(const LoadReport& report) {
  std::string text;
  for (const MixedFigures& mixed : report.mix) absl::StrAppend(&text, Remarks("mix, ", mixed.figures));
  if (report.mix_unsent > 0) {
    absl::StrAppendFormat(&text, "mix: due and not sent, for too many were in flight: %d\n", report.mix_unsent);
  }
  if (report.mix_abandoned > 0) absl::StrAppendFormat(&text, "mix: cancelled in flight: %d\n", report.mix_abandoned);
  return text;
}

}  // namespace

std::string ShortNumber(double number) {
  const double size = std::abs(number);
  if (size == 0) return "0";
  if (size < 1e-3) return absl::StrFormat("%.1e", number);
  const int before_point = size < 1 ? 0 : static_cast<int>(std::floor(std::log10(size))) + 1;
  return absl::StrFormat("%.*f", std::clamp(3 - before_point, 0, 3), number);
}

std::string LoadTable(const LoadReport& report) {
  std::string text = absl::StrFormat("Attention at %s: %s\n%s; attend-server %s, %s, %d compute threads\n\n",
                                     report.address, report.problem, report.load, report.server_version,
                                     report.instruction_set, report.compute_threads);
  if (report.lengths.empty()) return text + (report.interrupted ? "Interrupted before anything was measured.\n" : "");
  absl::StrAppend(&text, "Seen by the client:\n", ClientTable(report));
  absl::StrAppend(&text, "\nWhere a call's time went, mean ms by the server's clock:\n", ServerTable(report));
  if (!report.mix.empty()) absl::StrAppend(&text, "\nBeside each other, in one load:\n", MixTable(report));
  std::string remarks;
  for (const LengthFigures& length : report.lengths) absl::StrAppend(&remarks, Remarks("", length));
  absl::StrAppend(&remarks, MixRemarks(report));
  if (report.interrupted) absl::StrAppend(&remarks, "Interrupted: the figures are those up to then.\n");
  return remarks.empty() ? text : absl::StrCat(text, "\n", remarks);
}

}  // namespace attend::client
