#include "client/shape_options.h"

#include "absl/strings/str_cat.h"
#include "client/command_options.h"
#include "client/commands.h"

namespace attend::client {

absl::Status ShapeOptions::ValidateShape() const {
  if (heads % KvHeads() != 0) {
    return UsageError(absl::StrCat("--kv_heads is ", KvHeads(), ", must be a divisor of --heads, ", heads));
  }
  if (compute_type == v1::COMPUTE_TYPE_BF16 && element_type == v1::DATA_TYPE_FLOAT16) {
    return UsageError("--compute_type bf16 needs --element_type f32 or bf16");
  }
  return absl::OkStatus();
}

void AddShapeOptions(CLI::App& command, ShapeOptions& options) {
  AddNumberOption(command, "--query_length", options.query_length, 1,
                  "Length of the queries where it is not that of the keys: 1 is decoding");
  AddNumberOption(command, "--batch", options.batch, 1, "Batch elements in a call")->capture_default_str();
  AddNumberOption(command, "--heads", options.heads, 1, "Query heads")->capture_default_str();
  AddNumberOption(command, "--kv_heads", options.kv_heads, 1, "Heads of keys and values. Default: as --heads");
  AddNumberOption(command, "--head_dim", options.head_dim, 1, "Dimension of queries and keys")->capture_default_str();
  AddNumberOption(command, "--value_dim", options.value_dim, 1, "Dimension of values. Default: as --head_dim");
  AddChoiceOption(command, "--element_type", options.element_type, FloatTypeChoices(),
                  "Type of query, key and value. Default: f32");
  AddChoiceOption(command, "--causal", options.causal, CausalChoices(), "Causal mask. Default: none");
  AddNumberOption(command, "--window_left", options.window_left, -1, "Keys seen before a query's position; -1: all");
  AddNumberOption(command, "--window_right", options.window_right, -1, "Keys seen after a query's position; -1: all");
  AddChoiceOption(command, "--compute_type", options.compute_type, {{"bf16", v1::COMPUTE_TYPE_BF16}},
                  "Type of the matrix products. Default: as the inputs");
}

}  // namespace attend::client
