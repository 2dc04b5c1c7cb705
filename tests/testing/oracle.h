// The slow, obvious engine: attention in double precision, one query row at a time, step by step as the contract says
// (docs/protocol.md, "The calculation"). Everything that is fast is compared with it.
//
// It shares no code with what it judges beyond AttentionProblem's plain members: scale, positions, visibility and
// broadcasting are worked out here again.
#ifndef ATTEND_TESTS_TESTING_ORACLE_H_
#define ATTEND_TESTS_TESTING_ORACLE_H_

#include <cstdint>
#include <vector>

#include "core/attention_problem.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// Vectors of keys have an element for each that is in memory (KeyRows of the batch element), excluded ones too.
struct OracleRow {
  std::vector<double> scaled;      // the scores after each stage: scale * query . key
  std::vector<double> softcapped;  // as before without a softcap
  std::vector<double> masked;      // bias and ALiBi added; -inf where not visible
  std::vector<bool> visible;       // by the masks alone
  std::vector<double> weights;     // exactly 0 where not visible
  std::vector<double> output;      // [value_dim]
  double logsumexp = 0;            // natural logarithm, sink included; -inf for a row that sees nothing without one

  const std::vector<double>& Scores(core::ScoreStage stage) const;  // `stage` is not kNone
};

// The kv head that a query head reads.
int64_t KvHead(const core::AttentionShape& shape, int64_t query_head);

// Which keys a query sees: all masks that are given, together, a bias of -inf among them.
std::vector<bool> VisibleKeys(const core::AttentionProblem& problem, const ProblemValues& values,
                              const RowPosition& at);

// The position of a query among the keys of its batch element minus j: what windows and ALiBi count.
double DistanceFromKey(const core::AttentionProblem& problem, const RowPosition& at, int64_t j);

// The sink of a query head; -inf without one.
double SinkOf(const core::AttentionProblem& problem, int64_t head);

// A product or sum that rounds to no finite f32 counts as infinite; else `value`.
double OverflowToInfinity(double value);

OracleRow ComputeOracleRow(const core::AttentionProblem& problem, const ProblemValues& values, const RowPosition& at);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_ORACLE_H_
