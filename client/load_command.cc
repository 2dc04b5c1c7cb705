// attend load: throughput and latency by sequence length.
//
// Exit codes: 0 if every length has answers and nothing is wrong with them; 1 if there is no server, a length had no
// good answer, --verify found a wrong one, or a report could not be written; 2 for a bad command line. Interrupted by
// SIGINT or SIGTERM it reports what was measured, which is nothing before the server has answered, and then ends as
// the signal would have ended it: 130 or 143 in a shell.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/interruption.h"
#include "client/load_chart.h"
#include "client/load_export.h"
#include "client/load_options.h"
#include "client/load_progress.h"
#include "client/load_run.h"
#include "client/load_table.h"
#include "client/pending_file.h"

namespace attend::client {
namespace {

absl::Status WriteText(const std::string& path, const std::string& text) {
  auto file = PendingFile::Create(path);
  if (!file.ok()) return file.status();
  if (const absl::Status status = file->Write(text); !status.ok()) return status;
  return file->Commit();
}

// Writes what was asked for; one that fails does not keep the others from being written.
absl::Status WriteReports(const LoadOptions& options, const LoadReport& report) {
  absl::Status status;
  if (!options.json.empty()) status.Update(WriteText(options.json, LoadJson(report)));
  if (!options.csv.empty()) status.Update(WriteText(options.csv, LoadCsv(report)));
  if (options.chart.empty()) return status;
  const absl::Status drawn = WriteChart(report, options.chart);
  if (absl::IsNotFound(drawn)) {
    std::cerr << "attend: no chart, for gnuplot is not installed (" << drawn.message() << ")\n";
  } else {
    status.Update(drawn);
  }
  return status;
}

// What is wrong with the answers themselves.
absl::Status Judge(const LoadReport& report) {
  std::vector<LengthFigures> lengths = report.lengths;
  for (const MixedFigures& mixed : report.mix) lengths.push_back(mixed.figures);
  for (const LengthFigures& length : lengths) {
    if (!length.verification) continue;
    if (length.verification->passed() && length.differing_answers == 0) continue;
    return absl::DataLossError(absl::StrCat("wrong answers at length ", length.key_length));
  }
  if (!report.failure.ok()) return report.failure;
  for (const LengthFigures& length : lengths) {
    if (length.ok > 0) continue;
    if (length.messages.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("no call of length ", length.key_length, " was sent: --duration is too short"));
    }
    const auto& [code, message] = *length.messages.begin();
    return absl::Status(code, absl::StrCat("no call of length ", length.key_length, " succeeded: ", message));
  }
  return absl::OkStatus();
}

absl::Status RunLoad(const LoadOptions& options, const Connection& connection) {
  if (const absl::Status status = options.Validate(); !status.ok()) return status;
  for (const std::string& path : {options.json, options.csv, options.chart}) {
    if (path.empty()) continue;
    if (const absl::Status status = PendingFile::Check(path); !status.ok()) return status;
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < options.connections; ++i) {
    auto client = connection.Connect();
    if (!client.ok()) return client.status();
    clients.push_back(*std::move(client));
  }
  CallOptions call = connection.Call();
  call.retry = false;  // every answer counts

  // Until the server has answered there is nothing to report: a signal ends the command by itself.
  const auto server = clients.front()->GetServerInfo(call);
  if (!server.ok()) return server.status();
  const Interruption interruption;
  LoadProgress progress(std::cerr, isatty(STDERR_FILENO) != 0);
  const LoadReport report = LoadRun(options, clients, call, Interruption::requested, progress).Run(*server);
  if (!report.lengths.empty() || report.failure.ok()) std::cout << LoadTable(report) << std::flush;
  absl::Status status = WriteReports(options, report);
  status.Update(Judge(report));
  if (!status.ok() && Interruption::requested()) std::cerr << FailureLine(status) << "\n";
  Interruption::EndIfRequested();
  return status;
}

}  // namespace

void AddLoadCommand(Commands& commands) {
  auto options = std::make_shared<LoadOptions>();  // shared: filled while parsing, read when run
  CLI::App& command = commands.Add("load", "Measures throughput and latency by sequence length",
                                   [options](const Connection& connection) { return RunLoad(*options, connection); });
  AddLoadOptions(command, *options);
  command.footer(
      "Ctrl-C reports what was measured and ends with exit code 130; a second one ends\n"
      "at once. Exit code 1: no server, a length without a good answer, a wrong answer,\n"
      "or a report that could not be written.\n");
}

}  // namespace attend::client
