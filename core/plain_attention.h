// For tests: attention as a plain double loop, every option included, and what the tiles are compared with.
#ifndef ATTEND_CORE_PLAIN_ATTENTION_H_
#define ATTEND_CORE_PLAIN_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention_problem.h"
#include "core/tiled_attention_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {

// Inputs as floats, converted once.
struct Numbers {
  std::vector<float> query, key, value, bias;
  std::vector<uint8_t> mask;

  explicit Numbers(const Inputs& in)
      : query(in.query.Numbers()),
        key(in.key.Numbers()),
        value(in.value.Numbers()),
        bias(in.bias.Numbers()),
        mask(in.mask) {}
};

struct ExactRow {
  std::vector<double> scaled, capped, masked;  // scores at every stage, [key_length]
  std::vector<double> weights;                 // [key_length]
  std::vector<double> output;                  // [value_dim]
  double logsumexp = -std::numeric_limits<double>::infinity();
};

struct PlainQuery {
  int64_t b = 0;
  int64_t h = 0;
  int64_t i = 0;
};

inline int64_t BroadcastIndex(const BroadcastStrides& s, const PlainQuery& q, int64_t j) {
  return q.b * s.batch + q.h * s.head + q.i * s.query + j * s.key;
}

// Whether the query sees key j by position, mask and bias.
inline bool PlainSees(const AttentionProblem& p, const Numbers& in, const PlainQuery& q, int64_t j) {
  const AttentionOptions& o = p.options();
  const int64_t position = q.i + p.QueryOffset(q.b);
  if (j >= p.KeyCount(q.b) || (o.causal != CausalAlignment::kNone && j > position)) return false;
  if (o.window_left >= 0 && j < position - o.window_left) return false;
  if (o.window_right >= 0 && j > position + o.window_right) return false;
  if (o.mask.has_value() && in.mask[BroadcastIndex(p.MaskStrides(), q, j)] == 0) return false;
  return !o.bias.has_value() || in.bias[BroadcastIndex(p.BiasStrides(), q, j)] != -kInfinity;
}

// Key j's score, at every stage.
inline void PlainScore(const AttentionProblem& p, const Numbers& in, const PlainQuery& q, int64_t j, ExactRow& row) {
  const AttentionOptions& o = p.options();
  const float* const query = &in.query[p.QueryIndex(q.b, q.h, q.i)];
  const float* const key = &in.key[p.KeyIndex(q.b, q.h / p.group_size(), j)];
  const double dot = std::inner_product(
      query, query + p.shape().head_dim, key, 0.0, [](double sum, double x) { return sum + x; },
      [](float x, float y) { return double{x} * y; });
  row.scaled[j] = dot * p.scale();
  row.capped[j] = o.softcap > 0 ? o.softcap * std::tanh(row.scaled[j] / o.softcap) : row.scaled[j];
  row.masked[j] = -std::numeric_limits<double>::infinity();
  if (!PlainSees(p, in, q, j)) return;
  row.masked[j] = row.capped[j];
  if (o.bias.has_value()) row.masked[j] += in.bias[BroadcastIndex(p.BiasStrides(), q, j)];
  if (!o.alibi_slopes.empty()) {
    row.masked[j] -= double{o.alibi_slopes[q.h]} * static_cast<double>(std::abs(q.i + p.QueryOffset(q.b) - j));
  }
}

// One query, literally. Finite numbers only.
inline ExactRow PlainRow(const AttentionProblem& p, const Numbers& in, const PlainQuery& q) {
  const bool ragged = p.options().layout == Layout::kTHD;
  const int64_t keys = ragged ? p.KeyCount(q.b) : p.shape().key_length;
  ExactRow row;
  for (std::vector<double>* scores : {&row.scaled, &row.capped, &row.masked, &row.weights}) scores->resize(keys);
  row.output.resize(p.shape().value_dim);
  for (int64_t j = 0; j < keys; ++j) PlainScore(p, in, q, j, row);
  double top = row.logsumexp;
  for (const double score : row.masked) top = std::max(top, score);
  const double sink = p.options().sinks.empty() ? row.logsumexp : p.options().sinks[q.h];
  row.logsumexp = sink;
  if (std::isinf(top)) return row;
  top = std::max(top, sink);
  double sum = std::exp(sink - top);
  for (int64_t j = 0; j < keys; ++j) sum += row.weights[j] = std::exp(row.masked[j] - top);
  for (int64_t j = 0; j < keys; ++j) {
    row.weights[j] /= sum;
    if (row.weights[j] == 0) continue;
    const float* const value = &in.value[p.ValueIndex(q.b, q.h / p.group_size(), j)];
    for (int64_t d = 0; d < p.shape().value_dim; ++d) row.output[d] += row.weights[j] * value[d];
  }
  row.logsumexp = top + std::log(sum);
  return row;
}

// How far the tiles may be from the loop: small problems of ordinary numbers.
struct PlainTolerance {
  double output = 0;
  double weights = 2e-6;
  double scores = 2e-5;

  explicit PlainTolerance(const AttentionProblem& p) {
    const bool half = p.type() == ElementType::kBFloat16 || p.options().compute_type == ComputeType::kBFloat16;
    output = half ? 2e-2 : p.type() == ElementType::kFloat16 ? 2e-3 : 2e-5;
    if (half) scores = 1e-4;
    if (half && p.type() == ElementType::kFloat32) scores = weights = 5e-2;  // inputs are rounded, too
  }
};

inline bool IsNear(float got, double exact, double tolerance) {
  return std::isinf(exact) ? got == static_cast<float>(exact) : std::abs(got - exact) <= tolerance;
}

// Weights and scores of one query; `row` is its place in them.
inline void ExpectKeys(const AttentionProblem& p, const PlainQuery& q, int64_t row, const Results& out,
                       const ExactRow& exact) {
  const int64_t keys = p.shape().key_length;
  const int64_t at = ((q.b * p.shape().query_heads + q.h) * p.WeightRows() + row) * keys;
  const ScoreStage stage = p.results().scores;
  const std::vector<double>& scores = stage == ScoreStage::kScaled       ? exact.scaled
                                      : stage == ScoreStage::kSoftcapped ? exact.capped
                                                                         : exact.masked;
  const PlainTolerance tolerance(p);
  for (int64_t j = 0; j < keys; ++j) {
    if (!out.scores.empty() && !IsNear(out.scores[at + j], scores[j], tolerance.scores)) {
      FAIL() << "score " << j << " is " << out.scores[at + j] << ", must be " << scores[j];
    }
    if (out.weights.empty() || p.results().average_weights_over_heads) continue;
    if (!IsNear(out.weights[at + j], exact.weights[j], exact.weights[j] == 0 ? 0 : tolerance.weights)) {
      FAIL() << "weight " << j << " is " << out.weights[at + j] << ", must be " << exact.weights[j];
    }
  }
}

inline void ExpectQuery(const AttentionProblem& p, const PlainQuery& q, const Results& out, const ExactRow& exact) {
  const PlainTolerance tolerance(p);
  for (int64_t d = 0; d < p.shape().value_dim && out.output.size() > 0; ++d) {
    ASSERT_NEAR(out.output.Get(p.OutputIndex(q.b, q.h, q.i) + d), exact.output[d], tolerance.output) << d;
  }
  if (!out.logsumexp.empty()) {
    const float logsumexp = out.logsumexp[p.LogsumexpIndex(q.b, q.h, q.i)];
    ASSERT_TRUE(IsNear(logsumexp, exact.logsumexp, tolerance.scores)) << logsumexp << " for " << exact.logsumexp;
  }
  const std::vector<int64_t>& rows = p.results().weight_query_rows;
  const int64_t row = rows.empty() ? q.i : std::find(rows.begin(), rows.end(), q.i) - rows.begin();
  if (row < p.WeightRows()) {
    ASSERT_NO_FATAL_FAILURE(ExpectKeys(p, q, row, out, exact));
  }
}

// Every result but weights averaged over heads.
inline void ExpectCorrect(const AttentionProblem& p, const Inputs& in, const Results& out) {
  const Numbers numbers(in);
  for (int64_t b = 0; b < p.shape().batch; ++b) {
    for (int64_t row = 0; row < p.shape().query_heads * p.QueryCount(b); ++row) {
      const PlainQuery query = {.b = b, .h = row / p.QueryCount(b), .i = row % p.QueryCount(b)};
      SCOPED_TRACE(absl::StrCat("b ", b, " h ", query.h, " i ", query.i));
      ExpectQuery(p, query, out, PlainRow(p, numbers, query));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace attend::core

#endif  // ATTEND_CORE_PLAIN_ATTENTION_H_
