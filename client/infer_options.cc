#include "client/infer_options.h"

#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/command_options.h"
#include "client/commands.h"
#include "client/tensor_path.h"

namespace attend::client {
namespace {

constexpr char kInputs[] = "Inputs";
constexpr char kResults[] = "Results";
constexpr char kMasks[] = "Masks and positions";
constexpr char kCalculation[] = "Calculation";
constexpr char kChecking[] = "Checking";

void AddInputs(CLI::App& command, InferOptions& options) {
  command.option_defaults()->group(kInputs);
  const std::string rank = ", 2 to 4 axes; missing leading ones are 1";
  command.add_option("--query", options.query, "Tensor [batch, query_heads, query_length, head_dim]" + rank)
      ->required()
      ->type_name("FILE");
  command.add_option("--key", options.key, "Tensor [batch, kv_heads, key_length, head_dim]")
      ->required()
      ->type_name("FILE");
  command.add_option("--value", options.value, "Tensor [batch, kv_heads, key_length, value_dim]")
      ->required()
      ->type_name("FILE");
  AddChoiceOption(command, "--element_type", options.element_type, FloatTypeChoices(),
                  "What query, key and value are sent as; f32 files are rounded to it. Default: as the files");
  AddChoiceOption(
      command, "--layout", options.layout,
      {{"bhnd", v1::LAYOUT_BHND}, {"bnhd", v1::LAYOUT_BNHD}, {"thd", v1::LAYOUT_THD}},
      "Order of the axes of query, key, value and output: bnhd has heads after length; thd is packed ragged batches "
      "[total length, heads, dim]. Default: bhnd");
  AddListOption(command, "--query_starts", options.query_starts,
                "Layout thd: where each sequence of queries starts, and the total length last");
  AddListOption(command, "--key_starts", options.key_starts, "Layout thd: likewise of keys");
}

void AddResults(CLI::App& command, InferOptions& options) {
  command.option_defaults()->group(kResults);
  command.add_option("--output", options.output, "Where to write the output, with as many axes as the query's file")
      ->type_name("FILE");
  command.add_option("--weights", options.weights, "Where to write the weights")->type_name("FILE");
  command.add_option("--logsumexp", options.logsumexp, "Where to write the logarithms of the softmax's denominators")
      ->type_name("FILE");
  CLI::Option* scores = command.add_option("--scores", options.scores, "Where to write the scores");
  scores->type_name("FILE");
  AddChoiceOption(command, "--score_stage", options.score_stage,
                  {{"scaled", v1::SCORE_STAGE_SCALED},
                   {"softcapped", v1::SCORE_STAGE_SOFTCAPPED},
                   {"masked", v1::SCORE_STAGE_MASKED}},
                  "Scores after which step. Default: scaled")
      ->needs(scores);
  AddListOption(command, "--weight_query_rows", options.weight_query_rows,
                "Weights and scores of these query rows alone");
  command.add_flag("--average_weights_over_heads", options.average_weights, "Weights as their mean over the heads");
  AddChoiceOption(command, "--output_type", options.output_type, FloatTypeChoices(),
                  "Type of the output: that of the inputs (the default) or f32");
}

void AddMasks(CLI::App& command, InferOptions& options) {
  command.option_defaults()->group(kMasks);
  AddChoiceOption(command, "--causal", options.causal, CausalChoices(),
                  "Causal mask, aligned with the first query and key or with the last. Default: none");
  AddListOption(command, "--key_lengths", options.key_lengths,
                "How many keys each batch element has; the rest is padding");
  AddListOption(command, "--query_offset", options.query_offset,
                "Position of query 0 among the keys, per batch element");
  command.add_option("--window_left", options.window_left, "Keys seen before a query's position; -1: all")
      ->check(InRange<int64_t>())
      ->type_name("N");
  command.add_option("--window_right", options.window_right, "Keys seen after a query's position; -1: all")
      ->check(InRange<int64_t>())
      ->type_name("N");
  command
      .add_option("--mask", options.mask, "Tensor of bool, broadcast to [batch, query_heads, query_length, key_length]")
      ->type_name("FILE");
  command.add_option("--bias", options.bias, "Tensor of floats added to the scores, broadcast alike")
      ->type_name("FILE");
  AddListOption(command, "--alibi_slopes", options.alibi_slopes, "ALiBi's slope of each query head");
  AddListOption(
      command, "--sinks", options.sinks,
      "One extra logit per query head in the denominator; --sinks=-inf,1 where the first is negative infinity",
      -std::numeric_limits<float>::infinity());
}

void AddCalculation(CLI::App& command, InferOptions& options) {
  command.option_defaults()->group(kCalculation);
  command.add_option("--scale", options.scale, "Factor on query . key. Default: 1 / sqrt(head_dim)")
      ->check(InRange<float>())
      ->type_name("X");
  command.add_option("--softcap", options.softcap, "c > 0: scores become c * tanh(scores / c)")
      ->check(InRange<float>())
      ->type_name("C");
  AddChoiceOption(command, "--compute_type", options.compute_type, {{"bf16", v1::COMPUTE_TYPE_BF16}},
                  "Type of the matrix products. Default: as the inputs");
  command.add_flag("--reject_non_finite", options.reject_non_finite, "Refuse inputs with NaN or infinite elements");
  command.add_option("--priority", options.priority, "1, the largest share of the processor, to 9; 0 means 5")
      ->check(InRange<int32_t>())
      ->type_name("N");
  command.add_option("--request_id", options.request_id, "Name of the request in the server's log")->type_name("TEXT");
}

template <typename List, typename Repeated>
void CopyList(const List& from, Repeated* to) {
  to->Assign(from.begin(), from.end());
}

}  // namespace

absl::Status InferOptions::Validate() const {
  const std::pair<const std::string&, const char*> inputs[] = {
      {query, "query"}, {key, "key"}, {value, "value"}, {mask, "mask"}, {bias, "bias"}};
  for (const auto& [text, name] : inputs) {
    if (const auto path = ParseTensorPath(text, name); !path.ok()) return path.status();
  }
  const std::pair<const std::string&, const char*> results[] = {
      {output, "output"}, {weights, "weights"}, {scores, "scores"}, {logsumexp, "logsumexp"}};
  std::set<std::pair<std::string, std::string>> places;
  for (const auto& [text, name] : results) {
    const auto path = ParseTensorPath(text, name);
    if (!path.ok()) return path.status();
    if (!text.empty() && !places.emplace(path->Target(), path->name).second) {
      return UsageError(absl::StrCat(path->Text(), " is named for two results"));
    }
  }
  if (places.empty()) return UsageError("at least one of --output, --weights, --scores and --logsumexp is needed");
  if (average_weights && weights.empty()) return UsageError("--average_weights_over_heads needs --weights");
  if (!weight_query_rows.empty() && weights.empty() && scores.empty()) {
    return UsageError("--weight_query_rows needs --weights or --scores");
  }
  return absl::OkStatus();
}

void AddInferOptions(CLI::App& command, InferOptions& options) {
  AddInputs(command, options);
  AddResults(command, options);
  AddMasks(command, options);
  AddCalculation(command, options);
  command.option_defaults()->group(kChecking);
  CLI::Option* verify =
      command.add_flag("--verify", options.verify, "Recompute rows here in double precision; fail if they differ");
  command.add_option("--verify_rows", options.verify_rows, "How many rows --verify looks at; 0: all")
      ->needs(verify)
      ->check(InRange<int64_t>(0))
      ->capture_default_str()
      ->type_name("N");
}

v1::AttentionOptions ToAttentionOptions(const InferOptions& options) {
  v1::AttentionOptions wire;
  wire.set_layout(options.layout);
  if (options.scale) wire.set_scale(*options.scale);
  wire.set_softcap(options.softcap);
  wire.set_causal(options.causal);
  CopyList(options.query_offset, wire.mutable_query_offset());
  if (options.window_left) wire.set_window_left(*options.window_left);
  if (options.window_right) wire.set_window_right(*options.window_right);
  CopyList(options.key_lengths, wire.mutable_key_lengths());
  CopyList(options.query_starts, wire.mutable_query_starts());
  CopyList(options.key_starts, wire.mutable_key_starts());
  CopyList(options.alibi_slopes, wire.mutable_alibi_slopes());
  CopyList(options.sinks, wire.mutable_sinks());
  wire.set_compute_type(options.compute_type);
  wire.set_output_type(options.output_type);
  wire.set_reject_non_finite(options.reject_non_finite);
  return wire;
}

v1::ResultSelection ToResultSelection(const InferOptions& options) {
  v1::ResultSelection wire;
  wire.set_weights(!options.weights.empty());
  CopyList(options.weight_query_rows, wire.mutable_weight_query_rows());
  wire.set_average_weights_over_heads(options.average_weights);
  if (!options.scores.empty()) wire.set_scores(options.score_stage);
  wire.set_logsumexp(!options.logsumexp.empty());
  wire.set_omit_output(options.output.empty());
  return wire;
}

}  // namespace attend::client
