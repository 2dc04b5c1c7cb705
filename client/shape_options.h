// Options of a problem that is described by a length and no tensors: what `attend load` and `attend estimate` share.
#ifndef ATTEND_CLIENT_SHAPE_OPTIONS_H_
#define ATTEND_CLIENT_SHAPE_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "attend/v1/attention.pb.h"
#include "client/cli11_names.h"

namespace attend::client {

struct ShapeOptions {
  std::optional<int64_t> query_length;  // as the keys
  int64_t batch = 1;
  int64_t heads = 8;
  std::optional<int64_t> kv_heads;  // as heads
  int64_t head_dim = 64;
  std::optional<int64_t> value_dim;  // as head_dim
  v1::DataType element_type = v1::DATA_TYPE_FLOAT32;
  v1::CausalAlignment causal = v1::CAUSAL_ALIGNMENT_NONE;
  std::optional<int64_t> window_left;  // keys before a query's position that it sees; -1, and absent: all
  std::optional<int64_t> window_right;
  v1::ComputeType compute_type = v1::COMPUTE_TYPE_UNSPECIFIED;

  int64_t KvHeads() const { return kv_heads.value_or(heads); }
  int64_t ValueDim() const { return value_dim.value_or(head_dim); }
  int64_t QueryLength(int64_t key_length) const { return query_length.value_or(key_length); }

  // A UsageError for heads that do not divide, and for bf16 products of f16.
  absl::Status ValidateShape() const;
};

// Adds the options to `command`, in its present group; parsing fills `options`, which outlives it.
void AddShapeOptions(CLI::App& command, ShapeOptions& options);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_SHAPE_OPTIONS_H_
