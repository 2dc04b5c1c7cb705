#include "client/estimate_options.h"

#include "absl/strings/str_cat.h"
#include "client/command_options.h"
#include "client/commands.h"
#include "client/element_rounding.h"

namespace attend::client {
namespace {

constexpr char kProblem[] = "Problem";
constexpr char kResults[] = "Results";
constexpr char kServer[] = "Server";

void AddProblem(CLI::App& command, EstimateOptions& options) {
  command.option_defaults()->group(kProblem);
  AddNumberOption(command, "--length", options.length, 1,
                  "Length of the keys, and of the queries unless --query_length is given")
      ->required();
  AddShapeOptions(command, options);
  AddChoiceOption(command, "--layout", options.layout, {{"bhnd", v1::LAYOUT_BHND}, {"bnhd", v1::LAYOUT_BNHD}},
                  "Order of their axes. Default: bhnd");
}

void AddResults(CLI::App& command, EstimateOptions& options) {
  command.option_defaults()->group(kResults);
  AddChoiceOption(command, "--output_type", options.output_type, FloatTypeChoices(),
                  "Type of the output: that of the inputs (the default) or f32");
  command.add_flag("--omit_output", options.omit_output, "Without the output, where another result is asked for");
  command.add_flag("--weights", options.weights, "With the attention weights");
  command.add_flag("--average_weights_over_heads", options.average_weights, "Weights as their mean over the heads");
  AddChoiceOption(command, "--scores", options.scores,
                  {{"scaled", v1::SCORE_STAGE_SCALED},
                   {"softcapped", v1::SCORE_STAGE_SOFTCAPPED},
                   {"masked", v1::SCORE_STAGE_MASKED}},
                  "With the scores after this step");
  command.add_flag("--logsumexp", options.logsumexp, "With the logarithms of the softmax's denominators");
}

void AddServer(CLI::App& command, EstimateOptions& options) {
  command.option_defaults()->group(kServer);
  constexpr int kMostThreads = 65536;
  command
      .add_option("--compute_threads", options.compute_threads,
                  "How many threads compute. Default: as the server says; where none answers, 8")
      ->check(InRange<int>(1, kMostThreads))
      ->type_name("N");
  command
      .add_option("--instruction_set", options.instruction_set,
                  "What they compute with. Default: as the server says; where none answers, avx512")
      ->check(CLI::IsMember({"avx2", "avx512", "avx512_bf16", "amx"}))
      ->type_name("SET");
}

}  // namespace

absl::Status EstimateOptions::Validate() const {
  if (absl::Status status = ValidateShape(); !status.ok()) return status;
  if (average_weights && !weights) return UsageError("--average_weights_over_heads needs --weights");
  if (omit_output && !weights && !logsumexp && scores == v1::SCORE_STAGE_NONE) {
    return UsageError("--omit_output needs --weights, --scores or --logsumexp");
  }
  if (output_type != v1::DATA_TYPE_UNSPECIFIED && output_type != v1::DATA_TYPE_FLOAT32 && output_type != element_type) {
    const absl::string_view same = DataTypeName(element_type);
    return UsageError(absl::StrCat("--output_type is ", DataTypeName(output_type), ", must be ",
                                   element_type == v1::DATA_TYPE_FLOAT32 ? "" : absl::StrCat(same, " or "), "f32"));
  }
  return absl::OkStatus();
}

PlannedProblem EstimateOptions::Problem() const {
  return {.axes = {.batch = batch,
                   .query_heads = heads,
                   .kv_heads = KvHeads(),
                   .query_length = QueryLength(length),
                   .key_length = length,
                   .head_dim = head_dim,
                   .value_dim = ValueDim()},
          .element_type = element_type,
          .layout = layout,
          .causal = causal,
          .window_left = window_left.value_or(-1),
          .window_right = window_right.value_or(-1),
          .compute_type = compute_type,
          .output_type = output_type,
          .omit_output = omit_output,
          .weights = weights,
          .average_weights = average_weights,
          .scores = scores,
          .logsumexp = logsumexp};
}

void AddEstimateOptions(CLI::App& command, EstimateOptions& options) {
  AddProblem(command, options);
  AddResults(command, options);
  AddServer(command, options);
  command.option_defaults()->group("Report");
  command.add_flag("--json", options.json, "As JSON; sizes are in bytes");
}

}  // namespace attend::client
