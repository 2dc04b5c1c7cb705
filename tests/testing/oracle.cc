#include "tests/testing/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Keys of a batch element: those at or beyond key_lengths are not there.
int64_t KeysOf(const AttentionProblem& problem, int64_t b) {
  const auto& key_lengths = problem.options().key_lengths;
  return key_lengths.empty() ? problem.shape().key_length : key_lengths[b];
}

// Where query 0 stands among the keys.
int64_t Offset(const AttentionProblem& problem, int64_t b) {
  if (problem.options().causal != CausalAlignment::kBottomRight) return 0;
  return KeysOf(problem, b) - problem.shape().query_length;
}

// Step 1: scale * (q . k).
std::vector<double> ScaledScores(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at) {
  const AttentionShape& shape = problem.shape();
  const double scale = problem.options().scale.has_value() ? double{*problem.options().scale}
                                                           : 1 / std::sqrt(static_cast<double>(shape.head_dim));
  const float* query = values.query.data() + QueryIndex(shape, at.batch, at.head, at.query);
  std::vector<double> scores(shape.key_length);
  for (int64_t j = 0; j < shape.key_length; ++j) {
    const float* key = values.key.data() + KeyIndex(shape, at.batch, KvHead(shape, at.head), j);
    double dot = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) dot += OverflowToInfinity(double{query[d]} * double{key[d]});
    scores[j] = OverflowToInfinity(scale * OverflowToInfinity(dot));
  }
  return scores;
}

// Step 5: the softmax over the visible keys, the maximum subtracted. Fills weights and logsumexp. Arithmetic on scores
// that are not numbers gives NaN by itself: inf - inf for a score of +inf, and for scores that are all -inf.
void Softmax(OracleRow* row) {
  row->weights.assign(row->scores.size(), 0);
  row->logsumexp = -kInfinity;
  if (std::count(row->visible.begin(), row->visible.end(), true) == 0) return;
  double maximum = -kInfinity;
  for (size_t j = 0; j < row->scores.size(); ++j) {
    if (row->visible[j]) maximum = std::max(maximum, row->scores[j]);
  }
  double sum = 0;
  for (size_t j = 0; j < row->scores.size(); ++j) {
    if (!row->visible[j]) continue;
    row->weights[j] = std::exp(row->scores[j] - maximum);
    sum += row->weights[j];
  }
  for (double& weight : row->weights) weight /= sum;
  for (size_t j = 0; j < row->scores.size(); ++j) {
    if (!row->visible[j]) row->weights[j] = 0;  // not there, even where the sum is NaN
  }
  row->logsumexp = maximum + std::log(sum);
}

// Step 6: weights . V, over the visible keys.
std::vector<double> WeightedSum(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                                const OracleRow& row) {
  const AttentionShape& shape = problem.shape();
  std::vector<double> output(shape.value_dim, 0);
  for (int64_t j = 0; j < shape.key_length; ++j) {
    if (!row.visible[j]) continue;
    const float* value = values.value.data() + ValueIndex(shape, at.batch, KvHead(shape, at.head), j);
    for (int64_t d = 0; d < shape.value_dim; ++d) output[d] += row.weights[j] * double{value[d]};
  }
  return output;
}

}  // namespace

int64_t KvHead(const AttentionShape& shape, int64_t query_head) {
  return query_head / (shape.query_heads / shape.kv_heads);
}

double OverflowToInfinity(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (value > kLargest) return kInfinity;
  if (value < -kLargest) return -kInfinity;
  return value;
}

std::vector<bool> VisibleKeys(const AttentionProblem& problem, const RowPosition& at) {
  const int64_t keys = KeysOf(problem, at.batch);
  const int64_t position = at.query + Offset(problem, at.batch);
  std::vector<bool> visible(problem.shape().key_length, true);
  for (int64_t j = 0; j < problem.shape().key_length; ++j) {
    if (j >= keys) visible[j] = false;
    if (problem.options().causal != CausalAlignment::kNone && j > position) visible[j] = false;
  }
  return visible;
}

OracleRow ComputeOracleRow(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at) {
  OracleRow row;
  row.scores = ScaledScores(problem, values, at);
  row.visible = VisibleKeys(problem, at);
  Softmax(&row);
  row.output = WeightedSum(problem, values, at, row);
  return row;
}

}  // namespace attend::testing
