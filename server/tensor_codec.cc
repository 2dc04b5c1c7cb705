#include "server/tensor_codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/violation.h"

namespace attend::server {
namespace {

// Which axis of a tensor is which; the others are in the same place in every layout.
constexpr int kRank = 4;
constexpr int kBatchAxis = 0;
constexpr int kDimAxis = 3;
constexpr int HeadsAxis(core::Layout layout) { return layout == core::Layout::kBHND ? 1 : 2; }
constexpr int LengthAxis(core::Layout layout) { return layout == core::Layout::kBHND ? 2 : 1; }

std::vector<int64_t> InLayout(core::Layout layout, int64_t batch, int64_t heads, int64_t length, int64_t dim) {
  std::vector<int64_t> lengths = {batch, heads, length, dim};
  if (layout == core::Layout::kBNHD) std::swap(lengths[1], lengths[2]);
  return lengths;
}

absl::string_view AxesOf(core::Layout layout) {
  return layout == core::Layout::kBHND ? "[batch, heads, length, dim] in layout BHND"
                                       : "[batch, length, heads, dim] in layout BNHD";
}

absl::Status CheckPresentWithRank(absl::string_view name, bool present, const v1::Tensor& tensor, core::Layout layout) {
  if (!present) {
    return core::InvalidArgument(
        {.field = std::string(name), .reason = "MISSING_FIELD", .value = "absent", .limit = "a tensor"});
  }
  if (tensor.shape_size() == kRank) return absl::OkStatus();
  const core::Violation violation = {.field = absl::StrCat(name, ".shape"),
                                     .reason = "RANK_MISMATCH",
                                     .value = absl::StrCat(tensor.shape_size()),
                                     .limit = absl::StrCat(kRank)};
  return core::InvalidArgument(violation, absl::StrCat(name, ".shape has rank ", tensor.shape_size(), ", must have ",
                                                       kRank, ": ", AxesOf(layout)));
}

absl::StatusOr<core::ElementType> ReadElementType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FLOAT32:
      return core::ElementType::kFloat32;
    case v1::DATA_TYPE_BFLOAT16:
      return core::ElementType::kBFloat16;
    case v1::DATA_TYPE_FLOAT16:
      return core::ElementType::kFloat16;
    default:
      return core::InvalidArgument({.field = "query.data_type",
                                    .reason = "UNSUPPORTED_TYPE",
                                    .value = v1::DataType_Name(type),
                                    .limit = "DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16 or DATA_TYPE_FLOAT16"});
  }
}

absl::Status CheckSameType(absl::string_view name, v1::DataType type, v1::DataType query_type) {
  if (type == query_type) return absl::OkStatus();
  const core::Violation violation = {.field = absl::StrCat(name, ".data_type"),
                                     .reason = "TYPE_MISMATCH",
                                     .value = v1::DataType_Name(type),
                                     .limit = v1::DataType_Name(query_type)};
  return core::InvalidArgument(violation, absl::StrCat(violation.field, " is ", violation.value, ", must be ",
                                                       violation.limit, " as query.data_type"));
}

// What one tensor must be, and what it came with.
struct TensorCheck {
  absl::string_view name;
  const v1::Tensor* tensor;
  std::vector<int64_t> expected_shape;
  int64_t bytes;
  int64_t expected_bytes;
};

absl::Status CheckTensor(const TensorCheck& check) {
  for (int axis = 0; axis < kRank; ++axis) {
    const int64_t expected = check.expected_shape[static_cast<size_t>(axis)];
    if (check.tensor->shape(axis) == expected) continue;
    return core::InvalidArgument({.field = absl::StrCat(check.name, ".shape[", axis, "]"),
                                  .reason = "SHAPE_MISMATCH",
                                  .value = absl::StrCat(check.tensor->shape(axis)),
                                  .limit = absl::StrCat(expected)});
  }
  if (check.bytes == check.expected_bytes) return absl::OkStatus();
  const core::Violation violation = {.field = absl::StrCat(check.name, ".data"),
                                     .reason = "BYTE_COUNT_MISMATCH",
                                     .value = absl::StrCat(check.bytes),
                                     .limit = absl::StrCat(check.expected_bytes)};
  return core::InvalidArgument(
      violation, absl::StrCat(violation.field, " has ", violation.value, " bytes, must have ", violation.limit, " by ",
                              check.name, ".shape and ", check.name, ".data_type"));
}

// The path in the request of a field that core names.
std::string WirePath(absl::string_view field, core::Layout layout) {
  const auto axis = [](absl::string_view tensor, int index) { return absl::StrCat(tensor, ".shape[", index, "]"); };
  const std::array<std::pair<absl::string_view, std::string>, 11> paths = {{
      {"batch", axis("query", kBatchAxis)},
      {"query_heads", axis("query", HeadsAxis(layout))},
      {"query_length", axis("query", LengthAxis(layout))},
      {"head_dim", axis("query", kDimAxis)},
      {"kv_heads", axis("key", HeadsAxis(layout))},
      {"key_length", axis("key", LengthAxis(layout))},
      {"value_dim", axis("value", kDimAxis)},
      {"query", "query.shape"},
      {"key", "key.shape"},
      {"value", "value.shape"},
      {"output", "query.shape"},
  }};
  const auto* const found =
      std::find_if(paths.begin(), paths.end(), [field](const auto& path) { return path.first == field; });
  if (found != paths.end()) return found->second;
  const bool is_result = field == "weights" || field == "logsumexp";
  return absl::StrCat(is_result ? "results." : "options.", field);
}

}  // namespace

absl::StatusOr<TensorShapes> ReadTensorShapes(const v1::AttendRequest& request, core::Layout layout) {
  for (const absl::Status& status : {
           CheckPresentWithRank("query", request.has_query(), request.query(), layout),
           CheckPresentWithRank("key", request.has_key(), request.key(), layout),
           CheckPresentWithRank("value", request.has_value(), request.value(), layout),
       }) {
    if (!status.ok()) return status;
  }
  const v1::DataType query_type = request.query().data_type();
  const absl::StatusOr<core::ElementType> type = ReadElementType(query_type);
  for (const absl::Status& status : {
           type.status(),
           CheckSameType("key", request.key().data_type(), query_type),
           CheckSameType("value", request.value().data_type(), query_type),
       }) {
    if (!status.ok()) return status;
  }
  const core::AttentionShape shape = {.batch = request.query().shape(kBatchAxis),
                                      .query_heads = request.query().shape(HeadsAxis(layout)),
                                      .kv_heads = request.key().shape(HeadsAxis(layout)),
                                      .query_length = request.query().shape(LengthAxis(layout)),
                                      .key_length = request.key().shape(LengthAxis(layout)),
                                      .head_dim = request.query().shape(kDimAxis),
                                      .value_dim = request.value().shape(kDimAxis)};
  return TensorShapes{.shape = shape, .type = *type};
}

absl::Status CheckTensorsAgree(const v1::AttendRequest& request, const TensorByteCounts& bytes,
                               const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  const core::Layout layout = problem.options().layout;
  for (const TensorCheck& check : {
           TensorCheck{"query", &request.query(), InLayout(layout, s.batch, s.query_heads, s.query_length, s.head_dim),
                       bytes.query, problem.QueryBytes()},
           TensorCheck{"key", &request.key(), InLayout(layout, s.batch, s.kv_heads, s.key_length, s.head_dim),
                       bytes.key, problem.KeyBytes()},
           TensorCheck{"value", &request.value(), InLayout(layout, s.batch, s.kv_heads, s.key_length, s.value_dim),
                       bytes.value, problem.ValueBytes()},
       }) {
    if (absl::Status status = CheckTensor(check); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status InWireTerms(const absl::Status& status, core::Layout layout) {
  std::optional<core::Violation> violation = core::GetViolation(status);
  if (!violation.has_value()) return status;
  const std::string term = std::exchange(violation->field, WirePath(violation->field, layout));
  // "head_dim is 0, must be ..." becomes "query.shape[3] (head_dim) is 0, must be ..."; a path that has the word in it
  // needs no repetition.
  const bool says_it = absl::EndsWith(violation->field, term);
  const std::string subject = says_it ? violation->field : absl::StrCat(violation->field, " (", term, ")");
  absl::string_view rest = status.message();
  const absl::string_view separator = absl::ConsumePrefix(&rest, term) ? "" : ": ";
  return core::InvalidArgument(*violation, absl::StrCat(subject, separator, rest));
}

std::vector<int64_t> OutputShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.query_heads, s.query_length, s.value_dim);
}

std::vector<int64_t> WeightsShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return {s.batch, s.query_heads, s.query_length, s.key_length};
}

std::vector<int64_t> LogsumexpShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return {s.batch, s.query_heads, s.query_length};
}

v1::DataType ToDataType(core::ElementType type) {
  switch (type) {
    case core::ElementType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case core::ElementType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case core::ElementType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

}  // namespace attend::server
