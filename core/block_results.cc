#include "core/block_results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float LoadElement(const void* elements, int index, ElementType type) {
  if (type == ElementType::kFloat32) return static_cast<const float*>(elements)[index];
  const uint16_t bits = static_cast<const uint16_t*>(elements)[index];
  return type == ElementType::kBFloat16 ? BFloat16ToFloat(bits) : Float16ToFloat(bits);
}

// No mean of values that became results of `type` is larger.
float LargestElement(ElementType type) {
  return type == ElementType::kBFloat16 ? 0x1.FEp127f : std::numeric_limits<float>::max();
}

}  // namespace

// A sink is one more score, whose value is nothing.
RowTotal BlockResults::TotalOf(const BlockRows& rows, const RowSum& row) const {
  const auto& sinks = problem_->options().sinks;
  const float sink = sinks.empty() ? -kInfinity : sinks[rows[row.row].head];
  if (!row.sees) return {.factor = 0, .logsumexp = sink};
  if (row.maximum == -kInfinity || std::isnan(row.sum)) return {.factor = kNan, .logsumexp = kNan};
  const bool logsumexp = problem_->results().logsumexp;  // a logarithm takes a hundred times as long as the rest
  if (sink == -kInfinity) {
    return {.factor = 1 / row.sum,
            .logsumexp = logsumexp ? static_cast<float>(row.maximum + std::log(double{row.sum})) : 0};
  }
  const double top = std::max(row.maximum, sink);
  const double keys = std::exp(row.maximum - top);
  const double sum = row.sum * keys + std::exp(sink - top);
  return {.factor = static_cast<float>(keys / sum), .logsumexp = static_cast<float>(top + std::log(sum))};
}

void BlockResults::WriteLogsumexp(const BlockRows& rows, int i, float logsumexp) const {
  if (!problem_->results().logsumexp) return;
  results_.logsumexp[problem_->LogsumexpIndex(rows.place().batch, rows[i].head, rows[i].query)] = logsumexp;
}

void* BlockResults::OutputOf(const BlockRows& rows, int i) const {
  const int64_t index = problem_->OutputIndex(rows.place().batch, rows[i].head, rows[i].query);
  return static_cast<std::byte*>(results_.output) + index * ElementBytes(problem_->output_type());
}

bool BlockResults::WriteOutput(const BlockRows& rows, int i, const float* sums, float factor) const {
  if (problem_->results().omit_output) return true;
  const auto value_dim = static_cast<int>(problem_->shape().value_dim);
  const ElementType type = problem_->output_type();
  if (sums != nullptr) return WriteScaledRow(sums, value_dim, factor, type, OutputOf(rows, i));
  std::memset(OutputOf(rows, i), 0, value_dim * ElementBytes(type));
  return true;
}

void BlockResults::WriteOverflowed(const BlockRows& rows, int i, const float* sums, double factor) const {
  const ElementType type = problem_->output_type();
  const float largest = LargestElement(type);
  auto* const output = static_cast<std::byte*>(OutputOf(rows, i));
  for (int d = 0; d < problem_->shape().value_dim; ++d) {
    if (std::isfinite(LoadElement(output, d, type))) continue;
    auto mean = static_cast<float>(sums[d] * factor);
    if (std::isfinite(sums[d])) mean = std::clamp(mean, -largest, largest);
    WriteScaledRow(&mean, 1, 1, type, output + d * ElementBytes(type));
  }
}

int64_t BlockResults::CountWeightTiles(const BlockRows& rows) const {
  const ResultSelection& results = problem_->results();
  if (!results.weights && results.scores == ScoreStage::kNone) return 0;
  if (!tiling_->HasWeightRow(rows[0].query, rows[rows.count() - 1].query)) return 0;
  return (problem_->shape().key_length + kKeyBlock - 1) / kKeyBlock;
}

KeyRange BlockResults::WeightKeys(const BlockRows& rows, int64_t weight_tile) const {
  const int64_t first = weight_tile * kKeyBlock;
  KeyRange keys = {.begin = first, .end = std::min(first + kKeyBlock, problem_->shape().key_length)};
  if (tiling_->scores_every_key()) return keys;
  const KeyRange seen = rows.keys();
  keys.begin = std::clamp(seen.begin, keys.begin, keys.end);
  keys.end = std::clamp(seen.end, keys.begin, keys.end);
  return keys.count() > 0 ? keys : KeyRange{.begin = first, .end = first};
}

void BlockResults::WriteWeightTile(const BlockRows& rows, int64_t weight_tile, ScoresTile scores,
                                   const RowFactors& factors) const {
  const ResultSelection& results = problem_->results();
  const int64_t first = weight_tile * kKeyBlock;
  const int64_t first_score = WeightKeys(rows, weight_tile).begin;
  const int64_t width = std::min<int64_t>(problem_->shape().key_length - first, kKeyBlock);
  const TilePlace place = {.first = static_cast<int>(first_score - first), .width = static_cast<int>(width)};
  if (tiling_->scores_every_key()) {
    ScoresTile every = scores;
    every.visible = nullptr;
    if (results.scores == ScoreStage::kSoftcapped) rows.Cap(every);
    WriteScoresOf(rows, every, place, first);
    scores.scale = every.scale;
  }
  if (results.scores != ScoreStage::kSoftcapped) rows.Cap(scores);
  rows.AddBiases(first_score, scores);
  if (results.scores == ScoreStage::kMasked) WriteScoresOf(rows, scores, place, first);
  if (results.weights) WriteWeightsOf(rows, scores, place, factors, first);
}

void BlockResults::WriteScoresOf(const BlockRows& rows, const ScoresTile& tile, const TilePlace& place,
                                 int64_t first_key) const {
  std::array<float*, kMaxTileRows> to;
  for (int i = 0; i < rows.count(); ++i) {
    const int64_t row = tiling_->WeightRow(rows[i].query);
    const int64_t head = rows.place().batch * problem_->shape().query_heads + rows[i].head;
    const int64_t index = (head * problem_->WeightRows() + row) * problem_->shape().key_length + first_key;
    to[i] = row < 0 ? nullptr : results_.scores + index;
  }
  WriteScores(tile, place, to.data());
}

void BlockResults::WriteWeightsOf(const BlockRows& rows, const ScoresTile& tile, const TilePlace& place,
                                  const RowFactors& factors, int64_t first_key) const {
  const bool average = problem_->results().average_weights_over_heads;
  const int64_t heads = problem_->shape().query_heads;
  std::array<WeightsRow, kMaxTileRows> to;
  for (int i = 0; i < rows.count(); ++i) {
    const int64_t row = tiling_->WeightRow(rows[i].query);
    if (row < 0) continue;
    const int64_t head = average ? rows.place().batch : rows.place().batch * heads + rows[i].head;
    to[i].to = results_.weights + (head * problem_->WeightRows() + row) * problem_->shape().key_length + first_key;
    if (!average) continue;
    to[i].add = rows[i].head > 0;
    if (rows[i].head == heads - 1) to[i].divisor = static_cast<float>(heads);
  }
  WriteWeights(tile, factors.maximum, factors.factor, place, to.data());
}

}  // namespace attend::core
