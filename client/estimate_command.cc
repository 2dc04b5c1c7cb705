// attend estimate: what an attention problem costs, and whether a server would take it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "client/commands.h"
#include "client/estimate_options.h"
#include "client/estimate_report.h"

namespace attend::client {
namespace {

// Asks the server what it is, if there is one. Certificates, addresses and tokens that are no good are errors as they
// are for every command.
absl::Status AskServer(const Connection& connection, Estimate& estimate) {
  const auto client = connection.Connect();
  if (!client.ok()) return client.status();
  auto about = (*client)->GetServerInfo(connection.Call(kProbeTimeout));
  if (absl::IsUnavailable(about.status()) || absl::IsDeadlineExceeded(about.status())) {
    estimate.no_server = std::string(about.status().message());
    return absl::OkStatus();
  }
  if (!about.ok()) return about.status();
  estimate.setup = {.compute_threads = about->compute_threads(), .instruction_set = about->instruction_set()};
  estimate.server = {.address = connection.address, .about = *std::move(about)};
  return absl::OkStatus();
}

absl::Status RunEstimate(const EstimateOptions& options, const Connection& connection) {
  if (const absl::Status status = options.Validate(); !status.ok()) return status;
  Estimate estimate;
  estimate.problem = options.Problem();
  const auto cost = CostOf(estimate.problem);
  if (!cost.ok()) return cost.status();
  estimate.cost = *cost;
  if (absl::Status status = AskServer(connection, estimate); !status.ok()) return status;
  if (options.compute_threads) estimate.setup.compute_threads = *options.compute_threads;
  if (options.instruction_set) estimate.setup.instruction_set = *options.instruction_set;
  estimate.working = PredictWorkingMemory(estimate.problem, estimate.cost, estimate.setup);
  std::cout << (options.json ? EstimateJson(estimate) : EstimateText(estimate));
  return absl::OkStatus();
}

}  // namespace

void AddEstimateCommand(Commands& commands) {
  auto options = std::make_shared<EstimateOptions>();  // shared: filled while parsing, read when run
  CLI::App& command =
      commands.Add("estimate", "Tells what a problem costs, and whether the server would take it",
                   [options](const Connection& connection) { return RunEstimate(*options, connection); });
  AddEstimateOptions(command, *options);
  command.footer(
      "Nothing is sent but the question what the server is. Where none answers, all is\n"
      "told but the time and whether the problem would be admitted.\n");
}

}  // namespace attend::client
