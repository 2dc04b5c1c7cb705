#include "core/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/violation.h"

namespace attend::core {
namespace {

__extension__ using Wide = __int128;  // products of two int64 are exact in it

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// Whether the product of factors >= 0 is at most 2^63 - 1. A zero makes it 0 wherever it stands, also behind factors
// that overflow on their own.
bool ProductFits(std::initializer_list<int64_t> factors) {
  if (std::find(factors.begin(), factors.end(), 0) != factors.end()) return true;
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return false;
  }
  return true;
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t least, absl::string_view reason) {
  if (value >= least) return absl::OkStatus();
  return InvalidArgument({.field = std::string(field),
                          .reason = std::string(reason),
                          .value = absl::StrCat(value),
                          .limit = absl::StrCat("at least ", least)});
}

absl::Status CheckDim(absl::string_view field, int64_t value) {
  if (value >= 1 && value <= kMaxHeadDim) return absl::OkStatus();
  return InvalidArgument({.field = std::string(field),
                          .reason = "DIM_OUT_OF_RANGE",
                          .value = absl::StrCat(value),
                          .limit = absl::StrCat("in [1, ", kMaxHeadDim, "]")});
}

absl::Status CheckAxes(const AttentionShape& shape) {
  for (const absl::Status& status : {
           CheckRange("batch", shape.batch, 0, "LENGTH_OUT_OF_RANGE"),
           CheckRange("query_heads", shape.query_heads, 1, "HEADS_OUT_OF_RANGE"),
           CheckRange("kv_heads", shape.kv_heads, 1, "HEADS_OUT_OF_RANGE"),
           CheckRange("query_length", shape.query_length, 0, "LENGTH_OUT_OF_RANGE"),
           CheckRange("key_length", shape.key_length, 0, "LENGTH_OUT_OF_RANGE"),
           CheckDim("head_dim", shape.head_dim),
           CheckDim("value_dim", shape.value_dim),
       }) {
    if (!status.ok()) return status;
  }
  if (shape.query_heads % shape.kv_heads != 0) {
    return InvalidArgument({.field = "query_heads",
                            .reason = "HEADS_NOT_DIVISIBLE",
                            .value = absl::StrCat(shape.query_heads),
                            .limit = absl::StrCat("a multiple of kv_heads, ", shape.kv_heads)});
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const AttentionShape& shape, const AttentionOptions& options) {
  if (options.scale.has_value() && !std::isfinite(*options.scale)) {
    return InvalidArgument(
        {.field = "scale", .reason = "SCALE_NOT_FINITE", .value = absl::StrCat(*options.scale), .limit = "finite"});
  }
  if (options.key_lengths.empty()) return absl::OkStatus();
  const int64_t count = static_cast<int64_t>(options.key_lengths.size());
  if (count != shape.batch) {
    const Violation violation = {.field = "key_lengths",
                                 .reason = "KEY_LENGTHS_COUNT",
                                 .value = absl::StrCat(count),
                                 .limit = absl::StrCat(shape.batch)};
    return InvalidArgument(
        violation, absl::StrCat("key_lengths has ", count, " elements, must have one for each of the ", shape.batch,
                                " batch elements, or none"));
  }
  for (int64_t b = 0; b < count; ++b) {
    const int64_t length = options.key_lengths[b];
    if (length >= 0 && length <= shape.key_length) continue;
    return InvalidArgument({.field = absl::StrCat("key_lengths[", b, "]"),
                            .reason = "KEY_LENGTH_OUT_OF_RANGE",
                            .value = absl::StrCat(length),
                            .limit = absl::StrCat("in [0, ", shape.key_length, "]")});
  }
  return absl::OkStatus();
}

// A tensor whose axes are batch, heads, rows and columns, the middle two in either order. Its bytes fit, and so do the
// strides in bytes, which a zero among the other axes would hide.
absl::Status CheckTensorSize(absl::string_view field, const std::initializer_list<int64_t>& axes,
                             int64_t element_bytes) {
  const int64_t batch = axes.begin()[0];
  const int64_t heads = axes.begin()[1];
  const int64_t rows = axes.begin()[2];
  const int64_t columns = axes.begin()[3];
  if (ProductFits({batch, heads, rows, columns, element_bytes}) && ProductFits({heads, rows, columns, element_bytes}) &&
      ProductFits({heads, columns, element_bytes}) && ProductFits({rows, columns, element_bytes}) &&
      ProductFits({batch, heads})) {
    return absl::OkStatus();
  }
  const Violation violation = {.field = std::string(field),
                               .reason = "SIZE_OVERFLOW",
                               .value = absl::StrCat("[", absl::StrJoin(axes, ", "), "]"),
                               .limit = "2^63 - 1 bytes"};
  return InvalidArgument(violation, absl::StrCat(field, " has shape ", violation.value, " of ", element_bytes,
                                                 "-byte elements, must be at most 2^63 - 1 bytes"));
}

absl::Status CheckSizes(const AttentionShape& s, ElementType type, const ResultSelection& results) {
  const int64_t bytes = ElementBytes(type);
  for (const absl::Status& status : {
           CheckTensorSize("query", {s.batch, s.query_heads, s.query_length, s.head_dim}, bytes),
           CheckTensorSize("key", {s.batch, s.kv_heads, s.key_length, s.head_dim}, bytes),
           CheckTensorSize("value", {s.batch, s.kv_heads, s.key_length, s.value_dim}, bytes),
           CheckTensorSize("output", {s.batch, s.query_heads, s.query_length, s.value_dim}, bytes),
           results.weights ? CheckTensorSize("weights", {s.batch, s.query_heads, s.query_length, s.key_length}, 4)
                           : absl::OkStatus(),
           results.logsumexp ? CheckTensorSize("logsumexp", {s.batch, s.query_heads, s.query_length, 1}, 4)
                             : absl::OkStatus(),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// `layout` of a tensor with these heads, rows and columns.
Strides LayOut(Layout layout, int64_t heads, int64_t rows, int64_t columns) {
  if (layout == Layout::kBNHD) return {.batch = rows * heads * columns, .head = columns, .row = heads * columns};
  return {.batch = heads * rows * columns, .head = rows * columns, .row = columns};
}

// The product of factors >= 0, at most the largest int64.
int64_t SaturatedProduct(Wide a, int64_t b) {
  if (a > kLargest) return b == 0 ? 0 : kLargest;
  return static_cast<int64_t>(std::min<Wide>(a * b, kLargest));
}

// The sum over i in [0, rows) of min(max(i + 1 + offset, 0), keys): a flat start at 0, a ramp by 1, a flat end at
// `keys`.
Wide SumOfVisibleKeys(int64_t rows, int64_t keys, int64_t offset) {
  const Wide ramp_begin = std::min<Wide>(rows, std::max<Wide>(0, -Wide{offset}));
  const Wide ramp_end = std::min<Wide>(rows, std::max<Wide>(ramp_begin, Wide{keys} - offset));
  const Wide first = ramp_begin + 1 + offset;
  const Wide last = ramp_end + offset;
  const Wide on_ramp = (first + last) * (ramp_end - ramp_begin) / 2;
  return on_ramp + (rows - ramp_end) * keys;
}

}  // namespace

absl::StatusOr<AttentionProblem> AttentionProblem::Create(const AttentionShape& shape, ElementType type,
                                                          AttentionOptions options, ResultSelection results) {
  if (absl::Status status = CheckAxes(shape); !status.ok()) return status;
  if (absl::Status status = CheckOptions(shape, options); !status.ok()) return status;
  if (absl::Status status = CheckSizes(shape, type, results); !status.ok()) return status;
  AttentionProblem problem;
  problem.shape_ = shape;
  problem.type_ = type;
  problem.scale_ = options.scale.value_or(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim))));
  problem.options_ = std::move(options);
  problem.results_ = results;
  return problem;
}

int64_t AttentionProblem::KeyCount(int64_t b) const {
  return options_.key_lengths.empty() ? shape_.key_length : options_.key_lengths[b];
}

int64_t AttentionProblem::QueryOffset(int64_t b) const {
  return options_.causal == CausalAlignment::kBottomRight ? KeyCount(b) - shape_.query_length : 0;
}

int64_t AttentionProblem::VisibleKeyEnd(int64_t b, int64_t i) const {
  const int64_t keys = KeyCount(b);
  if (options_.causal == CausalAlignment::kNone) return keys;
  return std::clamp<int64_t>(i + 1 + QueryOffset(b), 0, keys);
}

Strides AttentionProblem::QueryStrides() const {
  return LayOut(options_.layout, shape_.query_heads, shape_.query_length, shape_.head_dim);
}

Strides AttentionProblem::KeyStrides() const {
  return LayOut(options_.layout, shape_.kv_heads, shape_.key_length, shape_.head_dim);
}

Strides AttentionProblem::ValueStrides() const {
  return LayOut(options_.layout, shape_.kv_heads, shape_.key_length, shape_.value_dim);
}

Strides AttentionProblem::OutputStrides() const {
  return LayOut(options_.layout, shape_.query_heads, shape_.query_length, shape_.value_dim);
}

int64_t AttentionProblem::QueryBytes() const { return shape_.batch * QueryStrides().batch * ElementBytes(type_); }

int64_t AttentionProblem::KeyBytes() const { return shape_.batch * KeyStrides().batch * ElementBytes(type_); }

int64_t AttentionProblem::ValueBytes() const { return shape_.batch * ValueStrides().batch * ElementBytes(type_); }

int64_t AttentionProblem::OutputBytes() const { return shape_.batch * OutputStrides().batch * ElementBytes(type_); }

int64_t AttentionProblem::WeightsBytes() const {
  if (!results_.weights) return 0;
  const int64_t per_batch = LayOut(Layout::kBHND, shape_.query_heads, shape_.query_length, shape_.key_length).batch;
  return shape_.batch * per_batch * ElementBytes(ElementType::kFloat32);
}

int64_t AttentionProblem::LogsumexpBytes() const {
  if (!results_.logsumexp) return 0;
  return shape_.batch * (shape_.query_heads * shape_.query_length) * ElementBytes(ElementType::kFloat32);
}

int64_t AttentionProblem::MultiplyAdds() const {
  const auto visible = [this](int64_t b) {
    const int64_t rows = shape_.query_length;
    if (options_.causal == CausalAlignment::kNone) return Wide{rows} * KeyCount(b);
    return SumOfVisibleKeys(rows, KeyCount(b), QueryOffset(b));
  };
  // Batch elements without lengths of their own are all alike, and there may be 2^40 of them (with no bytes).
  int64_t per_head = 0;
  if (options_.key_lengths.empty()) {
    per_head = shape_.batch == 0 ? 0 : SaturatedProduct(visible(0), shape_.batch);
  } else {
    for (int64_t b = 0; b < shape_.batch; ++b) {
      per_head = static_cast<int64_t>(std::min<Wide>(per_head + visible(b), kLargest));
    }
  }
  return SaturatedProduct(SaturatedProduct(per_head, shape_.query_heads), shape_.head_dim + shape_.value_dim);
}

}  // namespace attend::core
