// The slow, obvious engine: attention in double precision, one query row at a time, step by step as the contract says
// (docs/protocol.md, "The calculation"). Everything that is fast is compared with it.
//
// It shares no code with what it judges beyond AttentionProblem's plain members: visibility and scale are worked out
// here again.
#ifndef ATTEND_TESTS_TESTING_ORACLE_H_
#define ATTEND_TESTS_TESTING_ORACLE_H_

#include <cstdint>
#include <vector>

#include "core/attention_problem.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// One query row.
struct RowPosition {
  int64_t batch = 0;
  int64_t head = 0;   // query head
  int64_t query = 0;  // row
  bool operator==(const RowPosition&) const = default;
};

struct OracleRow {
  std::vector<double> scores;   // [key_length], scaled, for every key, excluded ones too
  std::vector<bool> visible;    // [key_length], by the masks alone
  std::vector<double> weights;  // [key_length], exactly 0 where not visible
  std::vector<double> output;   // [value_dim]
  double logsumexp = 0;         // natural logarithm, -inf for a row that sees nothing
};

// The kv head that a query head reads.
int64_t KvHead(const core::AttentionShape& shape, int64_t query_head);

// Which keys a query sees: all masks that are given, together.
std::vector<bool> VisibleKeys(const core::AttentionProblem& problem, const RowPosition& at);

// A product or sum beyond the largest f32 counts as infinite; else `value`.
double OverflowToInfinity(double value);

OracleRow ComputeOracleRow(const core::AttentionProblem& problem, const ProblemValues& values, const RowPosition& at);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_ORACLE_H_
