// Follows docs/protocol.md word by word: scores, softcap, bias, masks, softmax over what is left, weighted sum. Nothing
// is tiled, skipped or rearranged, so that a reader can check it against the page.
#include "client/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/element_rounding.h"

namespace attend::client {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status CheckBytes(absl::string_view name, const TensorView& tensor) {
  absl::int128 bytes = ElementBytes(tensor.data_type);
  for (const int64_t length : tensor.shape) {
    if (length < 0 || bytes > std::numeric_limits<int64_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": shape is not possible"));
    }
    bytes *= length;
  }
  if (bytes == static_cast<int64_t>(tensor.data.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": has ", tensor.data.size(),
                                                 " bytes, which is not what its shape [",
                                                 absl::StrJoin(tensor.shape, ", "), "] takes"));
}

absl::Status CheckCount(absl::string_view name, int count, int64_t wanted) {
  if (count == 0 || count == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": has ", count, " numbers, must be ", wanted));
}

// A score that f32 cannot hold counts as infinite.
double InFloatRange(double score) {
  if (std::abs(score) <= std::numeric_limits<float>::max()) return score;
  return std::isnan(score) ? score : std::copysign(kInfinity, score);
}

}  // namespace

float ReferenceAttention::Elements::operator[](int64_t index) const {
  if (!widened.empty()) return widened[static_cast<size_t>(index)];
  float element = 0;
  std::memcpy(&element, data.data() + static_cast<size_t>(index) * sizeof(element), sizeof(element));
  return element;
}

absl::StatusOr<ReferenceAttention::Elements> ReferenceAttention::Widen(absl::string_view name,
                                                                       const TensorView& tensor) {
  if (!IsFloatType(tensor.data_type)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has type ", DataTypeName(tensor.data_type), ", must be f32, bf16 or f16"));
  }
  if (const absl::Status status = CheckBytes(name, tensor); !status.ok()) return status;
  Elements elements{.widened = {}, .data = tensor.data};
  if (tensor.data_type != v1::DATA_TYPE_FLOAT32) elements.widened = WidenElements(tensor.data_type, tensor.data);
  return elements;
}

absl::StatusOr<ReferenceAttention::Broadcast> ReferenceAttention::ReadBroadcast(absl::string_view name,
                                                                                const TensorView& tensor) const {
  if (const absl::Status status = CheckBytes(name, tensor); !status.ok()) return status;
  const int64_t full[4] = {axes_.batch, axes_.query_heads, axes_.query_length, axes_.key_length};
  const size_t rank = tensor.shape.size();
  if (rank < 2 || rank > 4) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": rank is ", rank, ", must be 2, 3 or 4"));
  }
  Broadcast broadcast;
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 4 - rank;) {
    const int64_t length = tensor.shape[axis - (4 - rank)];
    if (length != 1 && length != full[axis]) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": shape is [", absl::StrJoin(tensor.shape, ", "),
                                                     "], must be broadcastable to [", absl::StrJoin(full, ", "), "]"));
    }
    if (length != 1) broadcast.strides[axis] = stride;
    stride *= length;
  }
  if (tensor.data_type == v1::DATA_TYPE_BOOL) {
    for (const std::byte element : tensor.data) broadcast.elements.push_back(element != std::byte{0} ? 1.0f : 0.0f);
  } else {
    broadcast.elements = WidenElements(tensor.data_type, tensor.data);
  }
  return broadcast;
}

absl::Status ReferenceAttention::CheckStarts() const {
  if (!ragged()) {
    if (options_.query_starts().empty() && options_.key_starts().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("query_starts and key_starts: are for layout THD alone");
  }
  const auto check = [this](absl::string_view name, const google::protobuf::RepeatedField<int64_t>& starts,
                            int64_t total) {
    const bool good = starts.size() == axes_.batch + 1 && starts[0] == 0 && starts[starts.size() - 1] == total &&
                      std::is_sorted(starts.begin(), starts.end());
    return good ? absl::OkStatus()
                : absl::InvalidArgumentError(absl::StrCat(name, ": must be ", axes_.batch + 1, " numbers from 0 to ",
                                                          total, " that do not decrease"));
  };
  absl::Status status = check("query_starts", options_.query_starts(), axes_.query_length);
  status.Update(check("key_starts", options_.key_starts(), axes_.key_length));
  if (options_.key_lengths_size() > 0) {
    status.Update(absl::InvalidArgumentError("key_lengths: are not for layout THD"));
  }
  return status;
}

absl::Status ReferenceAttention::CheckLists() const {
  absl::Status status = CheckStarts();
  status.Update(CheckCount("key_lengths", options_.key_lengths_size(), axes_.batch));
  status.Update(CheckCount("query_offset", options_.query_offset_size(), axes_.batch));
  status.Update(CheckCount("alibi_slopes", options_.alibi_slopes_size(), axes_.query_heads));
  status.Update(CheckCount("sinks", options_.sinks_size(), axes_.query_heads));
  for (const int64_t length : options_.key_lengths()) {
    if (length >= 0 && length <= axes_.key_length) continue;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("key_lengths: one is ", length, ", must be in [0, ", axes_.key_length, "]")));
  }
  return status;
}

absl::StatusOr<ReferenceAttention> ReferenceAttention::Create(const AttendRequest& request) {
  ReferenceAttention reference;
  reference.options_ = request.options;
  auto axes = MatchShapes(request.options.layout(), {"query", request.query.shape}, {"key", request.key.shape},
                          {"value", request.value.shape});
  if (!axes.ok()) return axes.status();
  reference.axes_ = *axes;
  if (reference.ragged()) reference.axes_.batch = std::max(0, request.options.query_starts_size() - 1);
  if (request.results.scores() != v1::SCORE_STAGE_NONE) reference.stage_ = request.results.scores();
  reference.scale_ = request.options.has_scale() ? static_cast<double>(request.options.scale())
                                                 : 1 / std::sqrt(static_cast<double>(axes->head_dim));
  if (const absl::Status status = reference.CheckLists(); !status.ok()) return status;
  auto query = Widen("query", request.query);
  auto key = Widen("key", request.key);
  auto value = Widen("value", request.value);
  for (const auto* elements : {&query, &key, &value}) {
    if (!elements->ok()) return elements->status();
  }
  reference.query_ = *std::move(query);
  reference.key_ = *std::move(key);
  reference.value_ = *std::move(value);
  if (request.mask) {
    auto mask = reference.ReadBroadcast("mask", *request.mask);
    if (!mask.ok()) return mask.status();
    reference.mask_ = *std::move(mask);
  }
  if (request.bias) {
    auto bias = reference.ReadBroadcast("bias", *request.bias);
    if (!bias.ok()) return bias.status();
    reference.bias_ = *std::move(bias);
  }
  return reference;
}

int64_t ReferenceAttention::FirstQuery(int64_t b) const {
  return ragged() ? options_.query_starts(static_cast<int>(b)) : 0;
}

int64_t ReferenceAttention::FirstKey(int64_t b) const {
  return ragged() ? options_.key_starts(static_cast<int>(b)) : 0;
}

int64_t ReferenceAttention::QueryCount(int64_t b) const {
  return ragged() ? FirstQuery(b + 1) - FirstQuery(b) : axes_.query_length;
}

int64_t ReferenceAttention::KeyCount(int64_t b) const {
  if (ragged()) return FirstKey(b + 1) - FirstKey(b);
  return options_.key_lengths().empty() ? axes_.key_length : options_.key_lengths(static_cast<int>(b));
}

int64_t ReferenceAttention::QueryOffset(int64_t b) const {
  if (!options_.query_offset().empty()) return options_.query_offset(static_cast<int>(b));
  return options_.causal() == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT ? KeyCount(b) - QueryCount(b) : 0;
}

int64_t ReferenceAttention::total_rows() const {
  return (ragged() ? 1 : axes_.batch) * axes_.query_heads * axes_.query_length;
}

RowPlace ReferenceAttention::Place(int64_t number) const {
  const int64_t row = number % axes_.query_length;
  const int64_t head = number / axes_.query_length % axes_.query_heads;
  if (!ragged()) return {.batch = number / axes_.query_length / axes_.query_heads, .head = head, .query = row};
  // The last sequence that starts at or before the row: those before it that start there too are empty.
  const auto next = std::upper_bound(options_.query_starts().begin(), options_.query_starts().end(), row);
  const int64_t sequence = next - options_.query_starts().begin() - 1;
  return {.batch = sequence, .head = head, .query = row - FirstQuery(sequence)};
}

ReferenceAttention::KeyRange ReferenceAttention::Range(int64_t b, int64_t i) const {
  const absl::int128 position = absl::int128(i) + QueryOffset(b);
  absl::int128 begin = 0;
  absl::int128 end = KeyCount(b);
  const bool causal =
      options_.causal() == v1::CAUSAL_ALIGNMENT_TOP_LEFT || options_.causal() == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT;
  if (causal) end = std::min(end, position + 1);
  if (options_.has_window_left() && options_.window_left() >= 0) {
    begin = std::max(begin, position - options_.window_left());
  }
  if (options_.has_window_right() && options_.window_right() >= 0) {
    end = std::min(end, position + options_.window_right() + 1);
  }
  if (begin >= end) return {0, 0};
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

bool ReferenceAttention::Excluded(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return (mask_ && mask_->At(b, h, i, j) == 0) || (bias_ && bias_->At(b, h, i, j) == -kInfinity);
}

ReferenceAttention::Score ReferenceAttention::ScoreOf(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const RowStrides q = LayoutStrides(options_.layout(), axes_.query_heads, axes_.query_length, axes_.head_dim);
  const RowStrides k = LayoutStrides(options_.layout(), axes_.kv_heads, axes_.key_length, axes_.head_dim);
  const int64_t kv_head = h / (axes_.query_heads / axes_.kv_heads);
  const int64_t query_start = q.batch * b + q.head * h + q.row * (FirstQuery(b) + i);
  const int64_t key_start = k.batch * b + k.head * kv_head + k.row * (FirstKey(b) + j);
  double product = 0;
  double magnitude = 0;
  for (int64_t d = 0; d < axes_.head_dim; ++d) {
    const double term = static_cast<double>(query_[query_start + d]) * static_cast<double>(key_[key_start + d]);
    product += term;
    magnitude += std::abs(term);
  }
  Score score;
  score.scaled = InFloatRange(scale_ * InFloatRange(product));
  score.product_magnitude = std::abs(scale_) * magnitude;
  score.softcapped = score.scaled;
  if (options_.softcap() > 0) score.softcapped = options_.softcap() * std::tanh(score.scaled / options_.softcap());
  score.value = score.softcapped;
  score.magnitude = std::abs(score.softcapped);
  const auto add = [&score](double term) {
    score.value = InFloatRange(score.value + term);
    score.magnitude += std::abs(term);
  };
  if (bias_) add(static_cast<double>(bias_->At(b, h, i, j)));
  if (!options_.alibi_slopes().empty()) {
    const absl::int128 position = absl::int128(i) + QueryOffset(b);
    add(-options_.alibi_slopes(static_cast<int>(h)) * std::abs(static_cast<double>(position - j)));
  }
  return score;
}

void ReferenceAttention::AddScores(const RowPlace& at, const KeyRange& range, ReferenceRow& row) const {
  if (stage_ == v1::SCORE_STAGE_UNSPECIFIED) return;
  for (int64_t j = 0; j < axes_.key_length; ++j) {
    const Score score = ScoreOf(at.batch, at.head, at.query, j);
    const bool seen = j >= range.begin && j < range.end && !Excluded(at.batch, at.head, at.query, j);
    const double masked = seen ? score.value : -kInfinity;
    row.scores.push_back(stage_ == v1::SCORE_STAGE_SCALED       ? score.scaled
                         : stage_ == v1::SCORE_STAGE_SOFTCAPPED ? score.softcapped
                                                                : masked);
    row.product_magnitudes.push_back(score.product_magnitude);
    row.score_magnitudes.push_back(stage_ == v1::SCORE_STAGE_MASKED ? score.magnitude : std::abs(score.scaled));
  }
}

ReferenceRow ReferenceAttention::Compute(int64_t b, int64_t h, int64_t i) const {
  ReferenceRow row;
  row.output.assign(static_cast<size_t>(axes_.value_dim), 0);
  row.output_magnitude = row.output;
  row.weights.assign(static_cast<size_t>(axes_.key_length), 0);

  std::vector<int64_t> keys;
  std::vector<double> scores;
  double largest = -kInfinity;
  bool has_nan = false;
  const KeyRange range = Range(b, i);
  AddScores({.batch = b, .head = h, .query = i}, range, row);
  for (int64_t j = range.begin; j < range.end; ++j) {
    if (Excluded(b, h, i, j)) continue;
    const Score score = ScoreOf(b, h, i, j);
    keys.push_back(j);
    scores.push_back(score.value);
    has_nan |= std::isnan(score.value);
    largest = std::max(largest, score.value);
    if (!std::isfinite(score.value)) continue;  // -inf is a weight of exactly 0, without rounding
    row.product_magnitude = std::max(row.product_magnitude, score.product_magnitude);
    row.score_magnitude = std::max(row.score_magnitude, score.magnitude);
  }
  row.visible_keys = static_cast<int64_t>(keys.size());
  const bool sink = !options_.sinks().empty();
  const double sink_logit = sink ? static_cast<double>(options_.sinks(static_cast<int>(h))) : -kInfinity;
  if (keys.empty()) {
    row.logsumexp = sink_logit;
    return row;
  }
  if (std::isfinite(sink_logit)) row.score_magnitude = std::max(row.score_magnitude, std::abs(sink_logit));
  // Not numbers: a NaN score, a score of +inf, or nothing but scores of -inf makes the row NaN, with a sink too.
  const bool numbers = !has_nan && std::isfinite(largest);
  largest = numbers ? std::max(largest, sink_logit) : std::numeric_limits<double>::quiet_NaN();

  double sum = sink ? std::exp(sink_logit - largest) : 0;
  for (const double score : scores) sum += std::exp(score - largest);
  row.logsumexp = largest + std::log(sum);
  const RowStrides v = LayoutStrides(options_.layout(), axes_.kv_heads, axes_.key_length, axes_.value_dim);
  const int64_t head_start = v.batch * b + v.head * (h / (axes_.query_heads / axes_.kv_heads));
  for (size_t n = 0; n < keys.size(); ++n) {
    const double weight = std::exp(scores[n] - largest) / sum;
    row.weights[static_cast<size_t>(keys[n])] = weight;
    for (int64_t d = 0; d < axes_.value_dim; ++d) {
      const double term = weight * static_cast<double>(value_[head_start + v.row * (FirstKey(b) + keys[n]) + d]);
      row.output[static_cast<size_t>(d)] += term;
      row.output_magnitude[static_cast<size_t>(d)] += std::abs(term);
    }
  }
  return row;
}

}  // namespace attend::client
