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
  AddNumberOption(command, "--query_length", options.query_length, 1,
                  "Length of the queries where it is not that of the keys: 1 is decoding");
  AddNumberOption(command, "--batch", options.batch, 1, "Batch elements")->capture_default_str();
  AddNumberOption(command, "--heads", options.heads, 1, "Query heads")->capture_default_str();
  AddNumberOption(command, "--kv_heads", options.kv_heads, 1, "Heads of keys and values. Default: as --heads");
  AddNumberOption(command, "--head_dim", options.head_dim, 1, "Dimension of queries and keys")->capture_default_str();
  AddNumberOption(command, "--value_dim", options.value_dim, 1, "Dimension of values. Default: as --head_dim");
  AddChoiceOption(command, "--element_type", options.element_type, FloatTypeChoices(),
                  "Type of query, key and value. Default: f32");
  AddChoiceOption(command, "--layout", options.layout, {{"bhnd", v1::LAYOUT_BHND}, {"bnhd", v1::LAYOUT_BNHD}},
                  "Order of their axes. Default: bhnd");
  AddChoiceOption(command, "--causal", options.causal, CausalChoices(), "Causal mask. Default: none");
  AddNumberOption(command, "--window_left", options.window_left, -1, "Keys seen before a query's position; -1: all");
  AddNumberOption(command, "--window_right", options.window_right, -1, "Keys seen after a query's position; -1: all");
  AddChoiceOption(command, "--compute_type", options.compute_type, {{"bf16", v1::COMPUTE_TYPE_BF16}},
                  "Type of the matrix products. Default: as the inputs");
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
  const int64_t kv = kv_heads.value_or(heads);
  if (heads % kv != 0) return UsageError(absl::StrCat("--kv_heads is ", kv, ", must be a divisor of --heads, ", heads));
  if (average_weights && !weights) return UsageError("--average_weights_over_heads needs --weights");
  if (omit_output && !weights && !logsumexp && scores == v1::SCORE_STAGE_NONE) {
    return UsageError("--omit_output needs --weights, --scores or --logsumexp");
  }
  if (output_type != v1::DATA_TYPE_UNSPECIFIED && output_type != v1::DATA_TYPE_FLOAT32 && output_type != element_type) {
    return UsageError(absl::StrCat("--output_type is ", DataTypeName(output_type), ", must be ",
                                   DataTypeName(element_type), " or f32"));
  }
  if (compute_type == v1::COMPUTE_TYPE_BF16 && element_type == v1::DATA_TYPE_FLOAT16) {
    return UsageError("--compute_type bf16 needs --element_type f32 or bf16");
  }
  return absl::OkStatus();
}

PlannedProblem EstimateOptions::Problem() const {
  return {.axes = {.batch = batch,
                   .query_heads = heads,
                   .kv_heads = kv_heads.value_or(heads),
                   .query_length = query_length.value_or(length),
                   .key_length = length,
                   .head_dim = head_dim,
                   .value_dim = value_dim.value_or(head_dim)},
          .element_type = element_type,
          .layout = layout,
          .causal = causal,
          .window_left = window_left,
          .window_right = window_right,
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
