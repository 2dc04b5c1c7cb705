#include "tests/conformance/problem_change.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/testing/oracle.h"

namespace attend::testing {
namespace {

using core::AttentionShape;
using core::BroadcastTensor;
using core::Layout;

// Rows [begin, end) of each of `heads` heads of `length` rows of `dim` numbers, of one batch element.
std::vector<float> TakeRows(const std::vector<float>& tensor, int64_t heads, int64_t length, int64_t dim,
                            std::pair<int64_t, int64_t> rows) {
  std::vector<float> taken;
  for (int64_t h = 0; h < heads; ++h) {
    const auto head = tensor.begin() + h * length * dim;
    taken.insert(taken.end(), head + rows.first * dim, head + rows.second * dim);
  }
  return taken;
}

template <typename T>
std::vector<T> TakePart(const std::vector<T>& tensor, int64_t parts, int64_t part) {
  const auto size = static_cast<int64_t>(tensor.size()) / parts;
  return std::vector<T>(tensor.begin() + part * size, tensor.begin() + (part + 1) * size);
}

// Batch element `b` of a mask or bias: the whole of it if that has no batch axis of its own.
template <typename T>
void TakeBroadcastElement(int64_t b, std::optional<BroadcastTensor>* tensor, std::vector<T>* values) {
  if (!tensor->has_value() || (*tensor)->shape.size() < 4 || (*tensor)->shape[0] == 1) return;
  *values = TakePart(*values, (*tensor)->shape[0], b);
  (*tensor)->shape[0] = 1;
}

void KeepOne(int64_t b, std::vector<int64_t>* of_each_element) {
  if (!of_each_element->empty()) *of_each_element = {(*of_each_element)[b]};
}

ProblemInstance SequenceAlone(const ProblemInstance& whole, int64_t b) {
  ProblemParts parts = ProblemParts::Of(whole);
  AttentionShape& s = parts.shape;
  const auto [query_begin, query_end] = std::pair(parts.options.query_starts[b], parts.options.query_starts[b + 1]);
  const auto [key_begin, key_end] = std::pair(parts.options.key_starts[b], parts.options.key_starts[b + 1]);
  parts.values.query =
      TakeRows(parts.values.query, s.query_heads, s.query_length, s.head_dim, {query_begin, query_end});
  parts.values.key = TakeRows(parts.values.key, s.kv_heads, s.key_length, s.head_dim, {key_begin, key_end});
  parts.values.value = TakeRows(parts.values.value, s.kv_heads, s.key_length, s.value_dim, {key_begin, key_end});
  s.batch = 1;
  s.query_length = query_end - query_begin;
  s.key_length = key_end - key_begin;
  parts.options.query_starts = {0, s.query_length};
  parts.options.key_starts = {0, s.key_length};
  KeepOne(b, &parts.options.query_offset);
  return parts.ToInstance();
}

// A tensor of broadcast shape with its axis of keys as `keys` say; padding gets `padded`.
template <typename T>
void SelectAlongKeys(const std::vector<int64_t>& keys, T padded, BroadcastTensor* tensor, std::vector<T>* values) {
  const int64_t length = tensor->shape.back();
  const auto rows = length == 0 ? int64_t{0} : static_cast<int64_t>(values->size()) / length;
  std::vector<T> selected;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t key : keys) {
      selected.push_back(key == kPaddingKey ? padded : (*values)[row * length + (length == 1 ? 0 : key)]);
    }
  }
  tensor->shape.back() = static_cast<int64_t>(keys.size());
  *values = std::move(selected);
}

std::vector<float> SelectRows(const std::vector<float>& tensor, int64_t length, int64_t dim,
                              const std::vector<int64_t>& keys, float padding) {
  std::vector<float> selected;
  for (int64_t first = 0; first < static_cast<int64_t>(tensor.size()); first += length * dim) {
    for (int64_t key : keys) {
      for (int64_t d = 0; d < dim; ++d) {
        selected.push_back(key == kPaddingKey ? padding : tensor[first + key * dim + d]);
      }
    }
  }
  return selected;
}

void RestoreAlongKeys(int64_t length, const std::vector<int64_t>& keys, const std::vector<float>& selected,
                      std::vector<float>* whole) {
  const auto width = static_cast<int64_t>(keys.size());
  for (int64_t row = 0; width > 0 && row < static_cast<int64_t>(selected.size()) / width; ++row) {
    for (int64_t n = 0; n < width; ++n) {
      if (keys[n] != kPaddingKey) (*whole)[row * length + keys[n]] = selected[row * width + n];
    }
  }
}

std::vector<float> RepeatHeads(const std::vector<float>& tensor, int64_t head_size, int64_t times) {
  std::vector<float> repeated;
  for (auto head = tensor.begin(); head != tensor.end(); head += head_size) {
    for (int64_t n = 0; n < times; ++n) repeated.insert(repeated.end(), head, head + head_size);
  }
  return repeated;
}

}  // namespace

ProblemParts ProblemParts::Of(const ProblemInstance& instance) {
  const core::AttentionProblem& problem = instance.problem;
  return {problem.shape(), problem.type(), problem.options(), problem.results(), instance.values};
}

ProblemInstance ProblemParts::ToInstance() const {
  return {core::AttentionProblem::Create(shape, type, options, results).value(), values};
}

ProblemInstance ElementAlone(const ProblemInstance& whole, int64_t b) {
  if (whole.problem.options().layout == Layout::kTHD) return SequenceAlone(whole, b);
  ProblemParts parts = ProblemParts::Of(whole);
  const int64_t batch = std::exchange(parts.shape.batch, 1);
  for (auto* tensor : {&parts.values.query, &parts.values.key, &parts.values.value}) {
    *tensor = TakePart(*tensor, batch, b);
  }
  TakeBroadcastElement(b, &parts.options.mask, &parts.values.mask);
  TakeBroadcastElement(b, &parts.options.bias, &parts.values.bias);
  KeepOne(b, &parts.options.query_offset);
  KeepOne(b, &parts.options.key_lengths);
  return parts.ToInstance();
}

ProblemInstance SequenceAsBatchElement(const ProblemInstance& whole, int64_t b) {
  ProblemParts parts = ProblemParts::Of(SequenceAlone(whole, b));
  parts.options.layout = Layout::kBHND;
  parts.options.query_starts.clear();
  parts.options.key_starts.clear();
  return parts.ToInstance();
}

ProblemInstance SelectKeys(const ProblemInstance& whole, const std::vector<int64_t>& keys, float padding) {
  ProblemParts parts = ProblemParts::Of(whole);
  AttentionShape& s = parts.shape;
  const bool padded = std::find(keys.begin(), keys.end(), kPaddingKey) != keys.end();
  if (padded && !parts.options.mask.has_value()) {
    parts.options.mask = BroadcastTensor{.shape = {1, 1}};
    parts.values.mask = {1};
  }
  if (parts.options.mask.has_value()) {
    SelectAlongKeys<uint8_t>(keys, 0, &*parts.options.mask, &parts.values.mask);
  }
  if (parts.options.bias.has_value()) SelectAlongKeys(keys, padding, &*parts.options.bias, &parts.values.bias);
  const int64_t length = std::exchange(s.key_length, static_cast<int64_t>(keys.size()));
  parts.values.key = SelectRows(parts.values.key, length, s.head_dim, keys, padding);
  parts.values.value = SelectRows(parts.values.value, length, s.value_dim, keys, padding);
  return parts.ToInstance();
}

ProblemResults RestoreKeys(const ProblemInstance& whole, const std::vector<int64_t>& keys,
                           const ProblemResults& selected) {
  ProblemResults restored(whole.problem);
  restored.output = selected.output;
  restored.logsumexp = selected.logsumexp;
  const int64_t length = whole.problem.shape().key_length;
  RestoreAlongKeys(length, keys, selected.weights, &restored.weights);
  RestoreAlongKeys(length, keys, selected.scores, &restored.scores);
  return restored;
}

ProblemInstance AddToRows(const ProblemInstance& whole, const std::vector<float>& added) {
  ProblemParts parts = ProblemParts::Of(whole);
  const AttentionShape& s = parts.shape;
  const BroadcastTensor full = {.shape = {s.batch, s.query_heads, s.query_length, s.key_length}};
  std::vector<float> bias;
  for (const RowPosition& at : AllRows(whole.problem)) {
    for (int64_t j = 0; j < s.key_length; ++j) {
      const float own =
          parts.options.bias.has_value() ? parts.values.bias[BroadcastIndex(*parts.options.bias, at, j)] : 0;
      bias.push_back(own + added[RowIndex(whole.problem, at.batch, at.head, at.query)]);
    }
  }
  parts.options.bias = full;
  parts.values.bias = std::move(bias);
  return parts.ToInstance();
}

ProblemInstance ExpandHeads(const ProblemInstance& whole) {
  ProblemParts parts = ProblemParts::Of(whole);
  AttentionShape& s = parts.shape;
  const int64_t group = s.query_heads / std::exchange(s.kv_heads, s.query_heads);
  if (s.key_length == 0) return parts.ToInstance();
  parts.values.key = RepeatHeads(parts.values.key, s.key_length * s.head_dim, group);
  parts.values.value = RepeatHeads(parts.values.value, s.key_length * s.value_dim, group);
  return parts.ToInstance();
}

ProblemInstance WithoutPositions(const ProblemInstance& whole) {
  ProblemParts parts = ProblemParts::Of(whole);
  parts.options.causal = core::CausalAlignment::kNone;
  parts.options.query_offset.clear();
  parts.options.window_left = -1;
  parts.options.window_right = -1;
  parts.options.alibi_slopes.clear();
  parts.options.key_lengths.clear();
  return parts.ToInstance();
}

}  // namespace attend::testing
