#include "core/attention_problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/problem_check.h"

namespace attend::core {
namespace {

__extension__ using Wide = __int128;  // products of two int64 are exact in it

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// `layout` of a tensor with these heads, rows and columns.
Strides LayOut(Layout layout, int64_t heads, int64_t rows, int64_t columns) {
  switch (layout) {
    case Layout::kBHND:
      return {.batch = heads * rows * columns, .head = rows * columns, .row = columns};
    case Layout::kBNHD:
      return {.batch = rows * heads * columns, .head = columns, .row = heads * columns};
    case Layout::kTHD:
      return {.batch = 0, .head = columns, .row = heads * columns};
  }
  return {};
}

// Where each axis of [batch, query_heads, query_length, key_length] steps in a tensor that is broadcast to them.
BroadcastStrides LayOut(const std::optional<BroadcastTensor>& tensor) {
  if (!tensor.has_value()) return {};
  std::array<int64_t, 4> strides = {};
  int64_t step = 1;
  for (size_t i = 1; i <= tensor->shape.size(); ++i) {
    const int64_t length = tensor->shape[tensor->shape.size() - i];
    if (length != 1) strides[4 - i] = step;
    step *= length;
  }
  return {.batch = strides[0], .head = strides[1], .query = strides[2], .key = strides[3]};
}

int64_t CountElements(const std::optional<BroadcastTensor>& tensor) {
  if (!tensor.has_value()) return 0;
  // A 0 first: it makes the product 0 behind factors that overflow together.
  if (std::find(tensor->shape.begin(), tensor->shape.end(), 0) != tensor->shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t length : tensor->shape) count *= length;
  return count;
}

// The product of factors >= 0, at most the largest int64.
int64_t SaturatedProduct(Wide a, int64_t b) {
  if (a > kLargest) return b == 0 ? 0 : kLargest;
  return static_cast<int64_t>(std::min<Wide>(a * b, kLargest));
}

// The sum over i in [0, rows) of min(max(i + offset, 0), keys): a flat start at 0, a ramp by 1, a flat end at `keys`.
Wide SumOfRamp(int64_t rows, int64_t keys, Wide offset) {
  const Wide ramp_begin = std::min<Wide>(rows, std::max<Wide>(0, 1 - offset));
  const Wide ramp_end = std::min<Wide>(rows, std::max<Wide>(ramp_begin, Wide{keys} + 1 - offset));
  const Wide first = ramp_begin + offset;
  const Wide last = ramp_end - 1 + offset;
  const Wide on_ramp = ramp_end == ramp_begin ? 0 : (first + last) * (ramp_end - ramp_begin) / 2;
  return on_ramp + (rows - ramp_end) * keys;
}

// The limits of what a query sees, relative to its position: keys [position + begin, position + end). Unbounded sides
// are further away than any key.
struct ReachAround {
  Wide begin;
  Wide end;
};

ReachAround Reach(const AttentionOptions& options) {
  constexpr Wide kFar = Wide{1} << 65;
  ReachAround reach = {.begin = -kFar, .end = kFar};
  if (options.window_left >= 0) reach.begin = -Wide{options.window_left};
  if (options.window_right >= 0) reach.end = Wide{options.window_right} + 1;
  if (options.causal != CausalAlignment::kNone) reach.end = std::min<Wide>(reach.end, 1);
  return reach;
}

}  // namespace

absl::StatusOr<AttentionProblem> AttentionProblem::Create(const AttentionShape& shape, ElementType type,
                                                          AttentionOptions options, ResultSelection results) {
  if (absl::Status status = CheckProblem(shape, type, options, results); !status.ok()) return status;
  AttentionProblem problem;
  problem.shape_ = shape;
  problem.type_ = type;
  problem.scale_ = options.scale.value_or(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim))));
  problem.options_ = std::move(options);
  problem.results_ = std::move(results);
  return problem;
}

int64_t AttentionProblem::FirstQuery(int64_t b) const {
  return options_.layout == Layout::kTHD ? options_.query_starts[b] : 0;
}

int64_t AttentionProblem::FirstKey(int64_t b) const {
  return options_.layout == Layout::kTHD ? options_.key_starts[b] : 0;
}

int64_t AttentionProblem::QueryCount(int64_t b) const {
  return options_.layout == Layout::kTHD ? options_.query_starts[b + 1] - options_.query_starts[b]
                                         : shape_.query_length;
}

int64_t AttentionProblem::KeyCount(int64_t b) const {
  if (options_.layout == Layout::kTHD) return options_.key_starts[b + 1] - options_.key_starts[b];
  return options_.key_lengths.empty() ? shape_.key_length : options_.key_lengths[b];
}

int64_t AttentionProblem::QueryOffset(int64_t b) const {
  if (!options_.query_offset.empty()) return options_.query_offset[b];
  return options_.causal == CausalAlignment::kBottomRight ? KeyCount(b) - QueryCount(b) : 0;
}

KeyRange AttentionProblem::VisibleKeys(int64_t b, int64_t i) const {
  const ReachAround reach = Reach(options_);
  const Wide position = Wide{i} + QueryOffset(b);
  const Wide keys = KeyCount(b);
  return {.begin = static_cast<int64_t>(std::clamp<Wide>(position + reach.begin, 0, keys)),
          .end = static_cast<int64_t>(std::clamp<Wide>(position + reach.end, 0, keys))};
}

KeyRange AttentionProblem::SeenKeys(int64_t b) const {
  const int64_t queries = QueryCount(b);
  if (queries == 0) return {};
  return {.begin = VisibleKeys(b, 0).begin, .end = VisibleKeys(b, queries - 1).end};
}

bool AttentionProblem::ElementsAreAlike() const {
  return options_.layout != Layout::kTHD && options_.key_lengths.empty() && options_.query_offset.empty();
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

int64_t AttentionProblem::QueryIndex(int64_t b, int64_t query_head, int64_t i) const {
  const Strides strides = QueryStrides();
  return b * strides.batch + query_head * strides.head + (FirstQuery(b) + i) * strides.row;
}

int64_t AttentionProblem::KeyIndex(int64_t b, int64_t kv_head, int64_t j) const {
  const Strides strides = KeyStrides();
  return b * strides.batch + kv_head * strides.head + (FirstKey(b) + j) * strides.row;
}

int64_t AttentionProblem::ValueIndex(int64_t b, int64_t kv_head, int64_t j) const {
  const Strides strides = ValueStrides();
  return b * strides.batch + kv_head * strides.head + (FirstKey(b) + j) * strides.row;
}

int64_t AttentionProblem::OutputIndex(int64_t b, int64_t query_head, int64_t i) const {
  const Strides strides = OutputStrides();
  return b * strides.batch + query_head * strides.head + (FirstQuery(b) + i) * strides.row;
}

int64_t AttentionProblem::LogsumexpIndex(int64_t b, int64_t query_head, int64_t i) const {
  const int64_t element = options_.layout == Layout::kTHD ? 0 : b;
  return (element * shape_.query_heads + query_head) * shape_.query_length + FirstQuery(b) + i;
}

BroadcastStrides AttentionProblem::MaskStrides() const { return LayOut(options_.mask); }

BroadcastStrides AttentionProblem::BiasStrides() const { return LayOut(options_.bias); }

int64_t AttentionProblem::WeightRows() const {
  return results_.weight_query_rows.empty() ? shape_.query_length
                                            : static_cast<int64_t>(results_.weight_query_rows.size());
}

int64_t AttentionProblem::TensorBytes(int64_t heads, int64_t length, int64_t dim, ElementType type) const {
  if (options_.layout == Layout::kTHD) return length * heads * dim * ElementBytes(type);
  return shape_.batch * (heads * length * dim) * ElementBytes(type);
}

int64_t AttentionProblem::QueryBytes() const {
  return TensorBytes(shape_.query_heads, shape_.query_length, shape_.head_dim, type_);
}

int64_t AttentionProblem::KeyBytes() const {
  return TensorBytes(shape_.kv_heads, shape_.key_length, shape_.head_dim, type_);
}

int64_t AttentionProblem::ValueBytes() const {
  return TensorBytes(shape_.kv_heads, shape_.key_length, shape_.value_dim, type_);
}

int64_t AttentionProblem::MaskBytes() const { return CountElements(options_.mask); }

int64_t AttentionProblem::BiasBytes() const {
  return options_.bias.has_value() ? CountElements(options_.bias) * ElementBytes(options_.bias->type) : 0;
}

int64_t AttentionProblem::OutputBytes() const {
  if (results_.omit_output) return 0;
  return TensorBytes(shape_.query_heads, shape_.query_length, shape_.value_dim, output_type());
}

int64_t AttentionProblem::WeightsBytes() const {
  if (!results_.weights) return 0;
  const int64_t heads = results_.average_weights_over_heads ? 1 : shape_.query_heads;
  return shape_.batch * (heads * WeightRows() * shape_.key_length) * ElementBytes(ElementType::kFloat32);
}

int64_t AttentionProblem::ScoresBytes() const {
  if (results_.scores == ScoreStage::kNone) return 0;
  return shape_.batch * (shape_.query_heads * WeightRows() * shape_.key_length) * ElementBytes(ElementType::kFloat32);
}

int64_t AttentionProblem::LogsumexpBytes() const {
  if (!results_.logsumexp) return 0;
  return TensorBytes(shape_.query_heads, shape_.query_length, 1, ElementType::kFloat32);
}

int64_t AttentionProblem::MultiplyAdds() const {
  const ReachAround reach = Reach(options_);
  const auto visible = [&](int64_t b) {
    const int64_t rows = QueryCount(b);
    const int64_t keys = KeyCount(b);
    const Wide offset = QueryOffset(b);
    return SumOfRamp(rows, keys, offset + reach.end) - SumOfRamp(rows, keys, offset + reach.begin);
  };
  // Batch elements that are all alike may be 2^40 (with no bytes).
  int64_t per_head = 0;
  if (ElementsAreAlike()) {
    per_head = shape_.batch == 0 ? 0 : SaturatedProduct(visible(0), shape_.batch);
  } else {
    for (int64_t b = 0; b < shape_.batch; ++b) {
      per_head = static_cast<int64_t>(std::min<Wide>(per_head + visible(b), kLargest));
    }
  }
  return SaturatedProduct(SaturatedProduct(per_head, shape_.query_heads), shape_.head_dim + shape_.value_dim);
}

}  // namespace attend::core
