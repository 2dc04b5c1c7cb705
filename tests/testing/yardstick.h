// The yardstick of "How correct": what anybody would get who writes the three steps down in the request's own type
// (scores, softmax, weighted sum; FlashAttention's measure, Dao et al. 2022). Its error against the oracle is the error
// that a good program may make.
#ifndef ATTEND_TESTS_TESTING_YARDSTICK_H_
#define ATTEND_TESTS_TESTING_YARDSTICK_H_

#include <vector>

#include "core/attention_problem.h"
#include "tests/testing/oracle.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// What each step's result is rounded to. Sums are f32 and plain, one element after the other.
struct YardstickPrecision {
  core::ElementType inputs;   // query, key and value; the problem's own, or bf16 with that compute type
  core::ElementType scores;   // where a score overflows it, f32
  core::ElementType results;  // weights and output
};

// The type that the naive calculation has: that of the inputs, or bf16 by compute_type.
core::ElementType NaiveType(const core::AttentionProblem& problem);

struct NaiveRow {
  std::vector<float> scaled;  // the stages of OracleRow, for every key
  std::vector<float> softcapped;
  std::vector<float> masked;
  std::vector<float> weights;  // 0 where not visible
  std::vector<float> output;   // [value_dim]
  float logsumexp = 0;

  const std::vector<float>& Scores(core::ScoreStage stage) const;  // `stage` is not kNone
};

// `visible` is OracleRow::visible of the same row.
NaiveRow ComputeNaiveRow(const core::AttentionProblem& problem, const ProblemValues& values, const RowPosition& at,
                         const std::vector<bool>& visible, const YardstickPrecision& precision);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_YARDSTICK_H_
