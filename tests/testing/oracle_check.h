// Compares computed results with the oracle and says what is wrong with them.
//
//   const ProblemValues values = Generate(problem, /*seed=*/7);
//   ... compute into `results` ...
//   EXPECT_EQ(CheckResults(problem, values, results), absl::OkStatus());
#ifndef ATTEND_TESTS_TESTING_ORACLE_CHECK_H_
#define ATTEND_TESTS_TESTING_ORACLE_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/attention_problem.h"
#include "tests/testing/oracle.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// The rows to check: all of them if the oracle then takes at most about `max_multiply_adds`, else the first, the last,
// those beside multiples of 64, some of weight_query_rows, and rows chosen at random from `seed`, as many as fit. Where
// weights are averaged, every head of each.
std::vector<RowPosition> ChooseRows(const core::AttentionProblem& problem, uint64_t seed, int64_t max_multiply_adds);

// About a tenth of a second.
inline constexpr int64_t kDefaultOracleWork = int64_t{1} << 24;

// OK if every result of `problem` is what the contract says: output, weights, scores and logsumexp within the
// tolerances on the rows of ChooseRows, infinities and NaN where the oracle has them (NaN compares by kind, not by
// bits); and CheckMasks. Else INTERNAL with, for each tensor that is wrong, how many elements are and the worst: its
// place, value, wanted value, error and bound; the problem and the seed.
absl::Status CheckResults(const core::AttentionProblem& problem, const ProblemValues& values,
                          const ProblemResults& results, int64_t max_multiply_adds = kDefaultOracleWork);

// The same for a tensor of so few numbers that a yardstick of 8 or 11 bits may by luck be right on all of them: its
// error is the largest over this tensor and over `alike`, other values of the same problem drawn in the same way.
absl::Status CheckResultsAmong(const core::AttentionProblem& problem, const ProblemValues& values,
                               const ProblemResults& results, std::span<const ProblemValues> alike);

// What the masks alone decide, on every row: an excluded key's weight is exactly 0 and its masked score exactly -inf, a
// row that sees nothing has an output of exactly 0 and its sink, or -inf, as logsumexp, and the weights of any other
// sum to 1 (with a sink, to at most 1) unless they are NaN. Without what is asked of weights that are averaged.
absl::Status CheckMasks(const core::AttentionProblem& problem, const ProblemValues& values,
                        const ProblemResults& results);

// For problems of which f32 arithmetic is exact and distinct scores lie at least 128 apart: every element of output,
// weights, scores and logsumexp of every row is what the oracle says, rounded to its type. Of a row whose largest score
// is shared by several keys (or a key and the sink), logsumexp is left out, and by a number of them that is no power of
// two, output and weights too. Without averaged weights. Reports as CheckResults.
absl::Status CheckExact(const core::AttentionProblem& problem, const ProblemValues& values,
                        const ProblemResults& results);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_ORACLE_CHECK_H_
