// The tensors of a problem, twice: as plain numbers for the oracle, and as the bytes that are computed from.
#ifndef ATTEND_TESTS_TESTING_PROBLEM_VALUES_H_
#define ATTEND_TESTS_TESTING_PROBLEM_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/attention_problem.h"

namespace attend::testing {

// `value` rounded to `type` and back.
float RoundTo(core::ElementType type, float value);

// Numbers, [batch, heads, length, dim] whatever the problem's layout, each representable in the problem's type.
struct ProblemValues {
  std::vector<float> query;  // [batch, query_heads, query_length, head_dim]
  std::vector<float> key;    // [batch, kv_heads, key_length, head_dim]
  std::vector<float> value;  // [batch, kv_heads, key_length, value_dim]
  uint64_t seed = 0;         // what they were made from, for reports
};

// The place of an element in a tensor [batch, heads, length, dim]. Query and output count query heads, key and value
// kv heads.
int64_t QueryIndex(const core::AttentionShape& shape, int64_t b, int64_t h, int64_t i);  // of its element 0
int64_t KeyIndex(const core::AttentionShape& shape, int64_t b, int64_t kv_head, int64_t j);
int64_t ValueIndex(const core::AttentionShape& shape, int64_t b, int64_t kv_head, int64_t j);
int64_t OutputIndex(const core::AttentionShape& shape, int64_t b, int64_t h, int64_t i);
// Of row (b, h, i) in logsumexp, and, times key_length, in weights.
int64_t RowIndex(const core::AttentionShape& shape, int64_t b, int64_t h, int64_t i);

// The same in the problem's type and layout. Blocks are exactly as large as the tensors, so that an address sanitizer
// sees any access beyond, and aligned to no more than an element.
class ProblemBytes {
 public:
  ProblemBytes(const core::AttentionProblem& problem, const ProblemValues& values);
  core::AttentionInputs inputs() const;

  // The bytes themselves.
  const std::byte* query() const { return query_.data() + kMisalignment; }
  const std::byte* key() const { return key_.data() + kMisalignment; }
  const std::byte* value() const { return value_.data() + kMisalignment; }

 private:
  static constexpr size_t kMisalignment = 4;
  std::vector<std::byte> query_;
  std::vector<std::byte> key_;
  std::vector<std::byte> value_;
};

// Where a problem's results go, filled with a pattern that no computation writes, so that a byte left out is seen.
class ProblemResults {
 public:
  explicit ProblemResults(const core::AttentionProblem& problem);
  core::AttentionResults results();

  // Numbers, [batch, query_heads, query_length, value_dim] whatever the layout.
  std::vector<float> OutputValues(const core::AttentionProblem& problem) const;

  // In the problem's type and layout.
  std::vector<std::byte> output;
  std::vector<float> weights;    // [batch, query_heads, query_length, key_length], or empty
  std::vector<float> logsumexp;  // [batch, query_heads, query_length], or empty

  // The same bits in every result that both have. Says what differs first; empty if nothing does.
  std::string FirstDifference(const ProblemResults& other) const;
};

// "f32 b1 h8/2 q16 k17 d64/32 causal=top_left scale=0.5 key_lengths=3,4 weights": for reports.
std::string Describe(const core::AttentionProblem& problem);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_PROBLEM_VALUES_H_
