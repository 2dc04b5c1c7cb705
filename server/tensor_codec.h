// From the tensors of a request to the shape of an attention problem, and from the problem's own words back to the
// request's.
#ifndef ATTEND_SERVER_TENSOR_CODEC_H_
#define ATTEND_SERVER_TENSOR_CODEC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attend/v1/attention.pb.h"
#include "core/attention_problem.h"
#include "core/element_type.h"

namespace attend::server {

// The shape and type of a problem, read from the tensors that define them: batch, query_heads, query_length and
// head_dim from query, kv_heads and key_length from key, value_dim from value; in layout THD the batch from
// options.query_starts.
struct TensorShapes {
  core::AttentionShape shape;
  core::ElementType type = core::ElementType::kFloat32;
};

// INVALID_ARGUMENT with a Violation whose field is a path ("key.data_type"): a tensor that is absent, a type that is
// not a float or not the query's, a rank that is not the layout's. Lengths are as sent: core::AttentionProblem::Create
// checks their ranges.
absl::StatusOr<TensorShapes> ReadTensorShapes(const v1::AttendRequest& request, core::Layout layout);

// Mask and bias of `options`, where they are set, into `result`. INVALID_ARGUMENT for a mask that is not BOOL and a
// bias that is no float; their shapes are core::AttentionProblem::Create's to check.
absl::Status ReadBroadcastTensors(const v1::AttentionOptions& options, core::AttentionOptions& result);

// FLOAT32, BFLOAT16 or FLOAT16; nothing for any other.
std::optional<core::ElementType> ToElementType(v1::DataType type);

// The bytes that each tensor came with.
struct TensorByteCounts {
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
  int64_t mask = 0;
  int64_t bias = 0;
};

// INVALID_ARGUMENT for an axis that does not agree with the problem ("value.shape[0]" is not the batch), and for bytes
// that are not what the shape takes ("query.data").
absl::Status CheckTensorsAgree(const v1::AttendRequest& request, const TensorByteCounts& bytes,
                               const core::AttentionProblem& problem);

// A violation that core found, said in the words of the request: "head_dim" is "query.shape[3]", "key_lengths[2]" is
// "options.key_lengths[2]", "scores" is "results.scores". Statuses without a violation pass unchanged.
absl::Status InWireTerms(const absl::Status& status, core::Layout layout);

// The lengths of the axes of tensors as they are on the wire, outermost first. Those of results hold where they are
// asked for.
std::vector<int64_t> QueryShape(const core::AttentionProblem& problem);
std::vector<int64_t> KeyShape(const core::AttentionProblem& problem);
std::vector<int64_t> ValueShape(const core::AttentionProblem& problem);
std::vector<int64_t> OutputShape(const core::AttentionProblem& problem);
std::vector<int64_t> WeightsShape(const core::AttentionProblem& problem);
std::vector<int64_t> ScoresShape(const core::AttentionProblem& problem);
std::vector<int64_t> LogsumexpShape(const core::AttentionProblem& problem);

v1::DataType ToDataType(core::ElementType type);

}  // namespace attend::server

#endif  // ATTEND_SERVER_TENSOR_CODEC_H_
