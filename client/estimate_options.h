// The command line of `attend estimate`: a problem without tensors, in the words of `attend load`.
#ifndef ATTEND_CLIENT_ESTIMATE_OPTIONS_H_
#define ATTEND_CLIENT_ESTIMATE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "attend/v1/attention.pb.h"
#include "client/cli11_names.h"
#include "client/problem_cost.h"
#include "client/shape_options.h"

namespace attend::client {

struct EstimateOptions : ShapeOptions {
  int64_t length = 0;  // of the keys, and of the queries unless query_length is given
  v1::Layout layout = v1::LAYOUT_BHND;

  // Results.
  v1::DataType output_type = v1::DATA_TYPE_UNSPECIFIED;
  bool omit_output = false;
  bool weights = false;
  bool average_weights = false;
  v1::ScoreStage scores = v1::SCORE_STAGE_NONE;
  bool logsumexp = false;

  // What the server computes with, instead of what it says of itself.
  std::optional<int> compute_threads;
  std::optional<std::string> instruction_set;

  bool json = false;

  // A UsageError for heads that do not divide and for results that exclude each other.
  absl::Status Validate() const;
  PlannedProblem Problem() const;
};

// Adds the options to `command`; parsing fills `options`, which outlives it.
void AddEstimateOptions(CLI::App& command, EstimateOptions& options);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ESTIMATE_OPTIONS_H_
