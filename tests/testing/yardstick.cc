#include "tests/testing/yardstick.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::ElementType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void RoundScores(ElementType type, std::vector<float>* scores) {
  for (float& score : *scores) {
    const float rounded = RoundTo(type, score);
    if (!std::isinf(rounded)) score = rounded;
  }
}

std::vector<float> ScaledScores(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                                ElementType inputs) {
  const AttentionShape& shape = problem.shape();
  const float scale = problem.options().scale.value_or(1 / std::sqrt(static_cast<float>(shape.head_dim)));
  const float* query = values.query.data() + QueryIndex(problem, at.batch, at.head, at.query);
  std::vector<float> scores(KeyRows(problem, at.batch));
  for (size_t j = 0; j < scores.size(); ++j) {
    const float* key = values.key.data() + KeyIndex(problem, at.batch, KvHead(shape, at.head), j);
    float dot = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) dot += RoundTo(inputs, query[d]) * RoundTo(inputs, key[d]);
    scores[j] = scale * dot;
  }
  return scores;
}

void Softcap(float cap, std::vector<float>* scores) {
  if (cap == 0) return;
  for (float& score : *scores) score = cap * std::tanh(score / cap);
}

void AddBias(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
             std::vector<float>* scores) {
  const AttentionOptions& options = problem.options();
  for (size_t j = 0; j < scores->size(); ++j) {
    float& score = (*scores)[j];
    if (options.bias.has_value()) score += values.bias.at(BroadcastIndex(*options.bias, at, j));
    if (options.alibi_slopes.empty()) continue;
    score -= options.alibi_slopes[at.head] * static_cast<float>(std::abs(DistanceFromKey(problem, at, j)));
  }
}

void Softmax(const std::vector<bool>& visible, float sink, ElementType type, NaiveRow* row) {
  row->weights.assign(row->masked.size(), 0);
  row->logsumexp = sink;
  float maximum = -kInfinity;
  for (size_t j = 0; j < row->masked.size(); ++j) {
    if (visible[j]) maximum = std::max(maximum, row->masked[j]);
  }
  maximum = std::max(maximum, sink);
  float sum = 0;
  for (size_t j = 0; j < row->masked.size(); ++j) {
    if (!visible[j]) continue;
    row->weights[j] = std::exp(row->masked[j] - maximum);
    sum += row->weights[j];
  }
  if (sum == 0) return;  // sees nothing, or nothing beside the sink
  if (sink != -kInfinity) sum += std::exp(sink - maximum);
  for (float& weight : row->weights) weight = RoundTo(type, weight / sum);
  row->logsumexp = maximum + std::log(sum);
}

}  // namespace

ElementType NaiveType(const AttentionProblem& problem) {
  return problem.options().compute_type == core::ComputeType::kBFloat16 ? ElementType::kBFloat16 : problem.type();
}

const std::vector<float>& NaiveRow::Scores(core::ScoreStage stage) const {
  if (stage == core::ScoreStage::kScaled) return scaled;
  return stage == core::ScoreStage::kSoftcapped ? softcapped : masked;
}

NaiveRow ComputeNaiveRow(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                         const std::vector<bool>& visible, const YardstickPrecision& precision) {
  const AttentionShape& shape = problem.shape();
  NaiveRow row;
  row.scaled = ScaledScores(problem, values, at, precision.inputs);
  row.softcapped = row.scaled;
  Softcap(problem.options().softcap, &row.softcapped);
  row.masked = row.softcapped;
  AddBias(problem, values, at, &row.masked);
  RoundScores(precision.scores, &row.masked);
  Softmax(visible, static_cast<float>(SinkOf(problem, at.head)), precision.results, &row);
  row.output.assign(shape.value_dim, 0);
  for (size_t j = 0; j < row.weights.size(); ++j) {
    if (!visible[j]) continue;
    const float* value = values.value.data() + ValueIndex(problem, at.batch, KvHead(shape, at.head), j);
    for (int64_t d = 0; d < shape.value_dim; ++d) row.output[d] += row.weights[j] * RoundTo(precision.inputs, value[d]);
  }
  for (float& element : row.output) element = RoundTo(precision.results, element);
  return row;
}

}  // namespace attend::testing
