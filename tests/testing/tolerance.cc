#include "tests/testing/tolerance.h"

#include <algorithm>
#include <cmath>

#include "tests/testing/yardstick.h"

namespace attend::testing {
namespace {

using core::ElementType;

// The unit roundoff: half the distance from 1 to the next number.
double UnitRoundoff(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 0x1p-24;
    case ElementType::kBFloat16:
      return 0x1p-8;
    case ElementType::kFloat16:
      return 0x1p-11;
  }
  return 0;
}

void KeepLargest(double value, double* largest) {
  if (std::isfinite(value)) *largest = std::max(*largest, std::abs(value));
}

template <typename Naive>
void KeepLargestError(const std::vector<Naive>& naive, const std::vector<double>& oracle, double* largest) {
  for (size_t n = 0; n < oracle.size(); ++n) KeepLargest(double{naive[n]} - oracle[n], largest);
}

}  // namespace

double Bound::Allows(double want) const { return absolute + relative * std::abs(want); }

void YardstickErrors::Add(const ProblemValues& values, const RowPosition& at, const OracleRow& oracle) {
  const core::AttentionShape& shape = problem_.shape();
  for (size_t j = 0; j < oracle.visible.size(); ++j) {
    if (!oracle.visible[j]) continue;  // what nobody sees must not widen a bound
    // Both sizes of a score are rounded on the way: before bias and ALiBi, and after.
    KeepLargest(oracle.softcapped[j], &largest_score_);
    KeepLargest(oracle.masked[j], &largest_score_);
    const float* value = values.value.data() + ValueIndex(problem_, at.batch, KvHead(shape, at.head), j);
    for (int64_t d = 0; d < shape.value_dim; ++d) KeepLargest(value[d], &largest_value_);
  }
  AddFloat32(values, at, oracle);
  AddResults(values, at, oracle);
}

void YardstickErrors::AddFloat32(const ProblemValues& values, const RowPosition& at, const OracleRow& oracle) {
  const ElementType type = NaiveType(problem_);
  const NaiveRow naive =
      ComputeNaiveRow(problem_, values, at, oracle.visible,
                      {.inputs = type, .scores = ElementType::kFloat32, .results = ElementType::kFloat32});
  const core::ScoreStage stage = problem_.results().scores;
  if (stage != core::ScoreStage::kNone) KeepLargestError(naive.Scores(stage), oracle.Scores(stage), &scores_);
  KeepLargest(naive.logsumexp - oracle.logsumexp, &logsumexp_);
  if (type != ElementType::kFloat32) return;
  for (Largest* largest : {&own_scores_, &float32_scores_}) {
    KeepLargestError(naive.output, oracle.output, &largest->output);
    KeepLargestError(naive.weights, oracle.weights, &largest->weights);
  }
}

void YardstickErrors::AddResults(const ProblemValues& values, const RowPosition& at, const OracleRow& oracle) {
  const ElementType type = NaiveType(problem_);
  if (type == ElementType::kFloat32) return;
  for (ElementType scores : {type, ElementType::kFloat32}) {
    const NaiveRow naive =
        ComputeNaiveRow(problem_, values, at, oracle.visible, {.inputs = type, .scores = scores, .results = type});
    Largest* largest = scores == ElementType::kFloat32 ? &float32_scores_ : &own_scores_;
    KeepLargestError(naive.output, oracle.output, &largest->output);
    KeepLargestError(naive.weights, oracle.weights, &largest->weights);
  }
}

Tolerances YardstickErrors::ToTolerances() const {
  const ElementType type = NaiveType(problem_);
  const double u = std::max(UnitRoundoff(type), 5e-6);
  const double s = 0x1p-24 * std::min(largest_score_, 1e5);  // one rounding of a score
  const double output_error = std::min(own_scores_.output, float32_scores_.output);
  const double weights_error = std::min(own_scores_.weights, float32_scores_.weights);
  const double logsumexp_slack = type == ElementType::kFloat32 ? 1e-5 : 1.25e-4;
  Tolerances tolerances;
  tolerances.output = {2 * output_error + 1e-5 * std::min(1.0, largest_value_) + s * largest_value_, u};
  tolerances.weights = {2 * weights_error + 1e-5 + s, u};
  tolerances.scores = {2 * scores_ + 1e-5, 5e-6};
  tolerances.logsumexp = {2 * logsumexp_ + logsumexp_slack, 5e-6};
  return tolerances;
}

}  // namespace attend::testing
