// What an attention problem costs, by its shape alone: docs/client.md, "estimate".
#ifndef ATTEND_CLIENT_PROBLEM_COST_H_
#define ATTEND_CLIENT_PROBLEM_COST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"
#include "client/tensor_shapes.h"

namespace attend::client {

// A problem whose batch elements are all alike. Every length is at least 1, and kv_heads divides query_heads.
struct PlannedProblem {
  AxisLengths axes;
  v1::DataType element_type = v1::DATA_TYPE_FLOAT32;
  v1::Layout layout = v1::LAYOUT_BHND;  // or LAYOUT_BNHD
  v1::CausalAlignment causal = v1::CAUSAL_ALIGNMENT_NONE;
  int64_t window_left = -1;  // -1: all
  int64_t window_right = -1;
  v1::ComputeType compute_type = v1::COMPUTE_TYPE_UNSPECIFIED;
  v1::DataType output_type = v1::DATA_TYPE_UNSPECIFIED;  // that of the inputs

  // Results.
  bool omit_output = false;
  bool weights = false;
  bool average_weights = false;
  v1::ScoreStage scores = v1::SCORE_STAGE_NONE;
  bool logsumexp = false;

  v1::DataType OutputType() const { return output_type == v1::DATA_TYPE_UNSPECIFIED ? element_type : output_type; }
};

// Bytes of the tensors, each 0 if there is none.
struct TensorSizes {
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
  int64_t output = 0;
  int64_t weights = 0;
  int64_t scores = 0;
  int64_t logsumexp = 0;

  int64_t inputs() const { return query + key + value; }
  int64_t results() const { return output + weights + scores + logsumexp; }
};

struct ProblemCost {
  // Of both products, by the keys that are visible by position: AttendResponse.multiply_adds.
  int64_t multiply_adds = 0;
  int64_t scores_per_head = 0;  // query_length * key_length, visible or not
  int64_t score_matrix = 0;     // bytes of the scores of all heads in float32, which tiled attention never stores
  TensorSizes sizes;
  int64_t request_message = 0;   // bytes of the AttendRequest
  int64_t response_message = 0;  // bytes of the AttendResponse, at most: what the server reckons with
};

// INVALID_ARGUMENT, saying which figure of which shape, if one does not fit 63 bits.
absl::StatusOr<ProblemCost> CostOf(const PlannedProblem& problem);

// Positions [begin, end) among the keys.
struct KeyPositions {
  int64_t begin = 0;
  int64_t end = 0;
};

// The keys that causal mask and window let query i of each batch element see.
KeyPositions VisibleKeys(const PlannedProblem& problem, int64_t i);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_PROBLEM_COST_H_
