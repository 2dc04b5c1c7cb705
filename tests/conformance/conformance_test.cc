#include "tests/conformance/conformance_test.h"

#include <cstring>
#include <vector>

namespace attend::testing {

namespace {

bool SameFloats(const std::vector<float>& a, const std::vector<float>& b, int64_t first, int64_t count) {
  return count == 0 || std::memcmp(&a.at(first), &b.at(first), count * sizeof(float)) == 0;
}

}  // namespace

bool SameRow(const core::AttentionProblem& problem, const ProblemResults& a, const ProblemResults& b,
             const RowPosition& at) {
  const core::ResultSelection& asked = problem.results();
  const int64_t keys = KeyRows(problem, at.batch);
  if (!asked.omit_output) {
    const int64_t row = problem.shape().value_dim * core::ElementBytes(problem.output_type());
    const int64_t place = OutputPlace(problem, at) * core::ElementBytes(problem.output_type());
    if (std::memcmp(a.output.data() + place, b.output.data() + place, row) != 0) return false;
  }
  if (asked.logsumexp && !SameFloats(a.logsumexp, b.logsumexp, RowIndex(problem, at.batch, at.head, at.query), 1)) {
    return false;
  }
  const auto weights = WeightsIndex(problem, at);
  if (asked.weights && !asked.average_weights_over_heads && weights.has_value() &&
      !SameFloats(a.weights, b.weights, *weights, keys)) {
    return false;
  }
  const auto scores = ScoresIndex(problem, at);
  return asked.scores == core::ScoreStage::kNone || !scores.has_value() ||
         SameFloats(a.scores, b.scores, *scores, keys);
}

}  // namespace attend::testing
