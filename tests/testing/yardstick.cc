#include "tests/testing/yardstick.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::ElementType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float RoundScore(ElementType type, float score) {
  const float rounded = RoundTo(type, score);
  return std::isinf(rounded) ? score : rounded;
}

std::vector<float> Scores(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                          ElementType type) {
  const AttentionShape& shape = problem.shape();
  const float scale = problem.options().scale.value_or(1 / std::sqrt(static_cast<float>(shape.head_dim)));
  const float* query = values.query.data() + QueryIndex(shape, at.batch, at.head, at.query);
  std::vector<float> scores(shape.key_length);
  for (int64_t j = 0; j < shape.key_length; ++j) {
    const float* key = values.key.data() + KeyIndex(shape, at.batch, KvHead(shape, at.head), j);
    float dot = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) dot += query[d] * key[d];
    scores[j] = RoundScore(type, scale * dot);
  }
  return scores;
}

void Softmax(const std::vector<bool>& visible, ElementType type, NaiveRow* row) {
  row->weights.assign(row->scores.size(), 0);
  row->logsumexp = -kInfinity;
  float maximum = -kInfinity;
  for (size_t j = 0; j < row->scores.size(); ++j) {
    if (visible[j]) maximum = std::max(maximum, row->scores[j]);
  }
  float sum = 0;
  for (size_t j = 0; j < row->scores.size(); ++j) {
    if (!visible[j]) continue;
    row->weights[j] = std::exp(row->scores[j] - maximum);
    sum += row->weights[j];
  }
  if (sum == 0) return;  // sees nothing
  for (float& weight : row->weights) weight = RoundTo(type, weight / sum);
  row->logsumexp = maximum + std::log(sum);
}

}  // namespace

NaiveRow ComputeNaiveRow(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                         const std::vector<bool>& visible, const YardstickPrecision& precision) {
  const AttentionShape& shape = problem.shape();
  NaiveRow row;
  row.scores = Scores(problem, values, at, precision.scores);
  Softmax(visible, precision.results, &row);
  row.output.assign(shape.value_dim, 0);
  for (int64_t j = 0; j < shape.key_length; ++j) {
    if (!visible[j]) continue;
    const float* value = values.value.data() + ValueIndex(shape, at.batch, KvHead(shape, at.head), j);
    for (int64_t d = 0; d < shape.value_dim; ++d) row.output[d] += row.weights[j] * value[d];
  }
  for (float& element : row.output) element = RoundTo(precision.results, element);
  return row;
}

}  // namespace attend::testing
