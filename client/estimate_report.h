// What `attend estimate` tells.
#ifndef ATTEND_CLIENT_ESTIMATE_REPORT_H_
#define ATTEND_CLIENT_ESTIMATE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attend/v1/attention.pb.h"
#include "client/problem_cost.h"
#include "client/working_memory.h"

namespace attend::client {

// A server that answered.
struct EstimatedServer {
  std::string address;
  v1::GetServerInfoResponse about;
};

struct Estimate {
  PlannedProblem problem;
  ProblemCost cost;
  ComputeSetup setup;
  WorkingMemory working;
  std::optional<EstimatedServer> server;
  std::string no_server;  // why there is none

  // Bytes that the server reserves for the request: inputs, working memory and the response; saturates at the largest
  // int64.
  int64_t reserved() const;
  // How long the server computes if it does nothing else, in seconds; nothing without a server, or one that does not
  // tell its rate.
  std::optional<double> seconds() const;
  // Why the server would refuse it, in words; empty if it would not. Without a server, why any would.
  std::vector<std::string> refusals() const;
};

std::string EstimateText(const Estimate& estimate);
std::string EstimateJson(const Estimate& estimate);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ESTIMATE_REPORT_H_
