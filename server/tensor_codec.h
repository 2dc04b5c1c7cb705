// From the tensors of a request to the shape of an attention problem, and from the problem's own words back to the
// request's.
#ifndef ATTEND_SERVER_TENSOR_CODEC_H_
#define ATTEND_SERVER_TENSOR_CODEC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attend/v1/attention.pb.h"
#include "core/attention_problem.h"
#include "core/element_type.h"

namespace attend::server {

// The shape and type of a problem, read from the tensors that define them: batch, query_heads, query_length and
// head_dim from query, kv_heads and key_length from key, value_dim from value.
struct TensorShapes {
  core::AttentionShape shape;
  core::ElementType type = core::ElementType::kFloat32;
};

// INVALID_ARGUMENT with a Violation whose field is a path ("key.data_type"): a tensor that is absent, a type that is
// not a float or not the query's, a rank other than 4. Lengths are as sent: core::AttentionProblem::Create checks their
// ranges.
absl::StatusOr<TensorShapes> ReadTensorShapes(const v1::AttendRequest& request, core::Layout layout);

// The bytes that each tensor came with.
struct TensorByteCounts {
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
};

// INVALID_ARGUMENT for an axis that does not agree with the problem ("value.shape[0]" is not the batch), and for bytes
// that are not what the shape takes ("query.data").
absl::Status CheckTensorsAgree(const v1::AttendRequest& request, const TensorByteCounts& bytes,
                               const core::AttentionProblem& problem);

// A violation that core found, said in the words of the request: "head_dim" is "query.shape[3]", "key_lengths[2]" is
// "options.key_lengths[2]". Statuses without a violation pass unchanged.
absl::Status InWireTerms(const absl::Status& status, core::Layout layout);

// The lengths of the axes of the results, outermost first.
std::vector<int64_t> OutputShape(const core::AttentionProblem& problem);
std::vector<int64_t> WeightsShape(const core::AttentionProblem& problem);
std::vector<int64_t> LogsumexpShape(const core::AttentionProblem& problem);

v1::DataType ToDataType(core::ElementType type);

}  // namespace attend::server

#endif  // ATTEND_SERVER_TENSOR_CODEC_H_
