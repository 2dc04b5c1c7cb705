#include "tests/testing/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;

__extension__ using Wide = __int128;  // positions are sums of int64

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Keys of a batch element: those at or beyond key_lengths are not there.
int64_t KeysOf(const AttentionProblem& problem, int64_t b) {
  const auto& key_lengths = problem.options().key_lengths;
  return key_lengths.empty() ? KeyRows(problem, b) : key_lengths[b];
}

// Where query 0 stands among the keys.
Wide Offset(const AttentionProblem& problem, int64_t b) {
  const AttentionOptions& options = problem.options();
  if (!options.query_offset.empty()) return options.query_offset[b];
  if (options.causal == CausalAlignment::kBottomRight) return Wide{KeysOf(problem, b)} - QueryRows(problem, b);
  return 0;
}

Wide PositionOf(const AttentionProblem& problem, const RowPosition& at) { return at.query + Offset(problem, at.batch); }

// Step 1: scale * (q . k).
std::vector<double> ScaledScores(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at) {
  const AttentionShape& shape = problem.shape();
  const double scale = problem.options().scale.has_value() ? double{*problem.options().scale}
                                                           : 1 / std::sqrt(static_cast<double>(shape.head_dim));
  const float* query = values.query.data() + QueryIndex(problem, at.batch, at.head, at.query);
  std::vector<double> scores(KeyRows(problem, at.batch));
  for (size_t j = 0; j < scores.size(); ++j) {
    const float* key = values.key.data() + KeyIndex(problem, at.batch, KvHead(shape, at.head), j);
    double dot = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) dot += OverflowToInfinity(double{query[d]} * double{key[d]});
    scores[j] = OverflowToInfinity(scale * OverflowToInfinity(dot));
  }
  return scores;
}

// Step 2: c * tanh(score / c).
std::vector<double> SoftcappedScores(const AttentionProblem& problem, std::vector<double> scores) {
  const double cap = problem.options().softcap;
  if (cap == 0) return scores;
  for (double& score : scores) score = cap * std::tanh(score / cap);
  return scores;
}

// Step 3: the bias, then ALiBi.
std::vector<double> BiasedScores(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                                 std::vector<double> scores) {
  const AttentionOptions& options = problem.options();
  for (size_t j = 0; j < scores.size(); ++j) {
    if (options.bias.has_value()) {
      scores[j] = OverflowToInfinity(scores[j] + double{values.bias.at(BroadcastIndex(*options.bias, at, j))});
    }
    if (!options.alibi_slopes.empty()) {
      const double slope = options.alibi_slopes[at.head];
      scores[j] = OverflowToInfinity(scores[j] - OverflowToInfinity(slope * std::abs(DistanceFromKey(problem, at, j))));
    }
  }
  return scores;
}

// Step 4: a key that is not visible is not there.
std::vector<double> MaskedScores(const std::vector<bool>& visible, std::vector<double> scores) {
  for (size_t j = 0; j < scores.size(); ++j) {
    if (!visible[j]) scores[j] = -kInfinity;
  }
  return scores;
}

// Whether the visible scores have no softmax: NaN or +inf among them, or nothing but -inf.
bool IsUndefined(const OracleRow& row) {
  bool only_minus_infinity = true;
  for (size_t j = 0; j < row.masked.size(); ++j) {
    if (!row.visible[j]) continue;
    if (std::isnan(row.masked[j]) || row.masked[j] == kInfinity) return true;
    if (row.masked[j] != -kInfinity) only_minus_infinity = false;
  }
  return only_minus_infinity;
}

// Step 5: the softmax over the visible keys and the sink, the maximum subtracted. Fills weights and logsumexp.
void Softmax(double sink, OracleRow* row) {
  row->weights.assign(row->masked.size(), 0);
  row->logsumexp = sink;
  if (std::count(row->visible.begin(), row->visible.end(), true) == 0) return;
  if (IsUndefined(*row)) {
    for (size_t j = 0; j < row->weights.size(); ++j) row->weights[j] = row->visible[j] ? kNan : 0;
    row->logsumexp = kNan;
    return;
  }
  double maximum = sink;
  for (const double score : row->masked) maximum = std::max(maximum, score);
  double sum = std::exp(sink - maximum);
  for (size_t j = 0; j < row->masked.size(); ++j) {
    row->weights[j] = std::exp(row->masked[j] - maximum);
    sum += row->weights[j];
  }
  for (double& weight : row->weights) weight /= sum;
  row->logsumexp = maximum + std::log(sum);
}

// Step 6: weights . V, over the visible keys.
std::vector<double> WeightedSum(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                                const OracleRow& row) {
  const AttentionShape& shape = problem.shape();
  std::vector<double> output(shape.value_dim, 0);
  for (size_t j = 0; j < row.weights.size(); ++j) {
    if (!row.visible[j]) continue;
    const float* value = values.value.data() + ValueIndex(problem, at.batch, KvHead(shape, at.head), j);
    for (int64_t d = 0; d < shape.value_dim; ++d) output[d] += row.weights[j] * double{value[d]};
  }
  return output;
}

}  // namespace

const std::vector<double>& OracleRow::Scores(core::ScoreStage stage) const {
  if (stage == core::ScoreStage::kScaled) return scaled;
  return stage == core::ScoreStage::kSoftcapped ? softcapped : masked;
}

int64_t KvHead(const AttentionShape& shape, int64_t query_head) {
  return query_head / (shape.query_heads / shape.kv_heads);
}

double OverflowToInfinity(double value) {
  constexpr double kFirstBeyond = 0x1p128 - 0x1p103;  // halfway from the largest f32 to what would be the next
  if (value >= kFirstBeyond) return kInfinity;
  if (value <= -kFirstBeyond) return -kInfinity;
  return value;
}

double DistanceFromKey(const AttentionProblem& problem, const RowPosition& at, int64_t j) {
  return static_cast<double>(PositionOf(problem, at) - j);
}

double SinkOf(const AttentionProblem& problem, int64_t head) {
  return problem.options().sinks.empty() ? -kInfinity : double{problem.options().sinks[head]};
}

std::vector<bool> VisibleKeys(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at) {
  const AttentionOptions& options = problem.options();
  const Wide position = PositionOf(problem, at);
  std::vector<bool> visible(KeyRows(problem, at.batch), true);
  for (int64_t j = 0; j < static_cast<int64_t>(visible.size()); ++j) {
    if (j >= KeysOf(problem, at.batch)) visible[j] = false;
    if (options.causal != CausalAlignment::kNone && j > position) visible[j] = false;
    if (options.window_left != -1 && j < position - options.window_left) visible[j] = false;
    if (options.window_right != -1 && j > position + options.window_right) visible[j] = false;
    if (options.mask.has_value() && values.mask.at(BroadcastIndex(*options.mask, at, j)) == 0) visible[j] = false;
    if (options.bias.has_value() && double{values.bias.at(BroadcastIndex(*options.bias, at, j))} == -kInfinity) {
      visible[j] = false;
    }
  }
  return visible;
}

OracleRow ComputeOracleRow(const AttentionProblem& problem, const ProblemValues& values, const RowPosition& at) {
  OracleRow row;
  row.visible = VisibleKeys(problem, values, at);
  row.scaled = ScaledScores(problem, values, at);
  row.softcapped = SoftcappedScores(problem, row.scaled);
  row.masked = MaskedScores(row.visible, BiasedScores(problem, values, at, row.softcapped));
  Softmax(SinkOf(problem, at.head), &row);
  row.output = WeightedSum(problem, values, at, row);
  return row;
}

}  // namespace attend::testing
