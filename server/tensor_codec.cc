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

// Which axis of query, key and value is which.
struct Axes {
  int rank;
  int batch;  // of no meaning in layout THD, whose batch is that of query_starts
  int heads;
  int length;
  int dim;
  absl::string_view text;
};

constexpr Axes AxesOf(core::Layout layout) {
  switch (layout) {
    case core::Layout::kBHND:
      return {4, 0, 1, 2, 3, "[batch, heads, length, dim] in layout BHND"};
    case core::Layout::kBNHD:
      return {4, 0, 2, 1, 3, "[batch, length, heads, dim] in layout BNHD"};
    case core::Layout::kTHD:
      return {3, -1, 1, 0, 2, "[total length, heads, dim] in layout THD"};
  }
  return {};
}

std::vector<int64_t> InLayout(core::Layout layout, int64_t batch, int64_t heads, int64_t length, int64_t dim) {
  switch (layout) {
    case core::Layout::kBHND:
      return {batch, heads, length, dim};
    case core::Layout::kBNHD:
      return {batch, length, heads, dim};
    case core::Layout::kTHD:
      return {length, heads, dim};
  }
  return {};
}

absl::Status CheckPresentWithRank(absl::string_view name, bool present, const v1::Tensor& tensor, core::Layout layout) {
  if (!present) {
    return core::InvalidArgument(
        {.field = std::string(name), .reason = "MISSING_FIELD", .value = "absent", .limit = "a tensor"});
  }
  const Axes axes = AxesOf(layout);
  if (tensor.shape_size() == axes.rank) return absl::OkStatus();
  const core::Violation violation = {.field = absl::StrCat(name, ".shape"),
                                     .reason = "RANK_MISMATCH",
                                     .value = absl::StrCat(tensor.shape_size()),
                                     .limit = absl::StrCat(axes.rank)};
  return core::InvalidArgument(violation, absl::StrCat(name, ".shape has rank ", tensor.shape_size(), ", must have ",
                                                       axes.rank, ": ", axes.text));
}

absl::Status CheckFloat(absl::string_view field, v1::DataType type) {
  if (ToElementType(type).has_value()) return absl::OkStatus();
  return core::InvalidArgument({.field = std::string(field),
                                .reason = "UNSUPPORTED_TYPE",
                                .value = v1::DataType_Name(type),
                                .limit = "DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16 or DATA_TYPE_FLOAT16"});
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

absl::Status CheckShape(absl::string_view name, const v1::Tensor& tensor, const std::vector<int64_t>& expected) {
  for (int axis = 0; axis < tensor.shape_size(); ++axis) {
    if (tensor.shape(axis) == expected[static_cast<size_t>(axis)]) continue;
    return core::InvalidArgument({.field = absl::StrCat(name, ".shape[", axis, "]"),
                                  .reason = "SHAPE_MISMATCH",
                                  .value = absl::StrCat(tensor.shape(axis)),
                                  .limit = absl::StrCat(expected[static_cast<size_t>(axis)])});
  }
  return absl::OkStatus();
}

absl::Status CheckByteCount(absl::string_view name, int64_t bytes, int64_t expected) {
  if (bytes == expected) return absl::OkStatus();
  const core::Violation violation = {.field = absl::StrCat(name, ".data"),
                                     .reason = "BYTE_COUNT_MISMATCH",
                                     .value = absl::StrCat(bytes),
                                     .limit = absl::StrCat(expected)};
  return core::InvalidArgument(violation, absl::StrCat(violation.field, " has ", bytes, " bytes, must have ", expected,
                                                       " by ", name, ".shape and ", name, ".data_type"));
}

// The path in the request of a field that core names.
std::string WirePath(absl::string_view field, core::Layout layout) {
  const Axes axes = AxesOf(layout);
  const auto axis = [](absl::string_view tensor, int index) { return absl::StrCat(tensor, ".shape[", index, "]"); };
  const std::array<std::pair<absl::string_view, std::string>, 11> paths = {{
      {"batch", layout == core::Layout::kTHD ? "options.query_starts" : axis("query", axes.batch)},
      {"query_heads", axis("query", axes.heads)},
      {"query_length", axis("query", axes.length)},
      {"head_dim", axis("query", axes.dim)},
      {"kv_heads", axis("key", axes.heads)},
      {"key_length", axis("key", axes.length)},
      {"value_dim", axis("value", axes.dim)},
      {"query", "query.shape"},
      {"key", "key.shape"},
      {"value", "value.shape"},
      {"output", "query.shape"},
  }};
  const auto* const found =
      std::find_if(paths.begin(), paths.end(), [field](const auto& path) { return path.first == field; });
  if (found != paths.end()) return found->second;
  const absl::string_view name = field.substr(0, field.find_first_of(".["));
  const bool is_result = v1::ResultSelection::descriptor()->FindFieldByName(std::string(name)) != nullptr;
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
  for (const absl::Status& status : {
           CheckFloat("query.data_type", query_type),
           CheckSameType("key", request.key().data_type(), query_type),
           CheckSameType("value", request.value().data_type(), query_type),
       }) {
    if (!status.ok()) return status;
  }
  const Axes axes = AxesOf(layout);
  // Without starts there are no sequences; that they are missing is found with them.
  const int64_t sequences = std::max<int64_t>(0, int64_t{request.options().query_starts_size()} - 1);
  const core::AttentionShape shape = {
      .batch = layout == core::Layout::kTHD ? sequences : request.query().shape(axes.batch),
      .query_heads = request.query().shape(axes.heads),
      .kv_heads = request.key().shape(axes.heads),
      .query_length = request.query().shape(axes.length),
      .key_length = request.key().shape(axes.length),
      .head_dim = request.query().shape(axes.dim),
      .value_dim = request.value().shape(axes.dim)};
  return TensorShapes{.shape = shape, .type = *ToElementType(query_type)};
}

absl::Status ReadBroadcastTensors(const v1::AttentionOptions& options, core::AttentionOptions& result) {
  if (options.has_mask()) {
    const v1::Tensor& mask = options.mask();
    if (mask.data_type() != v1::DATA_TYPE_BOOL) {
      return core::InvalidArgument({.field = "options.mask.data_type",
                                    .reason = "UNSUPPORTED_TYPE",
                                    .value = v1::DataType_Name(mask.data_type()),
                                    .limit = "DATA_TYPE_BOOL"});
    }
    result.mask = core::BroadcastTensor{.shape = {mask.shape().begin(), mask.shape().end()}};
  }
  if (options.has_bias()) {
    const v1::Tensor& bias = options.bias();
    if (absl::Status status = CheckFloat("options.bias.data_type", bias.data_type()); !status.ok()) return status;
    result.bias = core::BroadcastTensor{.shape = {bias.shape().begin(), bias.shape().end()},
                                        .type = *ToElementType(bias.data_type())};
  }
  return absl::OkStatus();
}

absl::Status CheckTensorsAgree(const v1::AttendRequest& request, const TensorByteCounts& bytes,
                               const core::AttentionProblem& problem) {
  for (const absl::Status& status : {
           CheckShape("query", request.query(), QueryShape(problem)),
           CheckByteCount("query", bytes.query, problem.QueryBytes()),
           CheckShape("key", request.key(), KeyShape(problem)),
           CheckByteCount("key", bytes.key, problem.KeyBytes()),
           CheckShape("value", request.value(), ValueShape(problem)),
           CheckByteCount("value", bytes.value, problem.ValueBytes()),
           CheckByteCount("options.mask", bytes.mask, problem.MaskBytes()),
           CheckByteCount("options.bias", bytes.bias, problem.BiasBytes()),
       }) {
    if (!status.ok()) return status;
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

std::vector<int64_t> QueryShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.query_heads, s.query_length, s.head_dim);
}

std::vector<int64_t> KeyShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.kv_heads, s.key_length, s.head_dim);
}

std::vector<int64_t> ValueShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.kv_heads, s.key_length, s.value_dim);
}

std::vector<int64_t> OutputShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.query_heads, s.query_length, s.value_dim);
}

std::vector<int64_t> WeightsShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  if (problem.results().average_weights_over_heads) return {s.batch, problem.WeightRows(), s.key_length};
  return ScoresShape(problem);
}

std::vector<int64_t> ScoresShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  return {s.batch, s.query_heads, problem.WeightRows(), s.key_length};
}

std::vector<int64_t> LogsumexpShape(const core::AttentionProblem& problem) {
  const core::AttentionShape& s = problem.shape();
  if (problem.options().layout == core::Layout::kTHD) return {s.query_heads, s.query_length};
  return {s.batch, s.query_heads, s.query_length};
}

std::optional<core::ElementType> ToElementType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FLOAT32:
      return core::ElementType::kFloat32;
    case v1::DATA_TYPE_BFLOAT16:
      return core::ElementType::kBFloat16;
    case v1::DATA_TYPE_FLOAT16:
      return core::ElementType::kFloat16;
    default:
      return std::nullopt;
  }
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
