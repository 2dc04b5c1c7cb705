// The tensors of a problem, twice: as plain numbers for the oracle, and as the bytes that are computed from.
#ifndef ATTEND_TESTS_TESTING_PROBLEM_VALUES_H_
#define ATTEND_TESTS_TESTING_PROBLEM_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/attention_problem.h"

namespace attend::testing {

// `value` rounded to `type` and back.
float RoundTo(core::ElementType type, float value);

// Numbers, [batch, heads, length, dim] in layouts BHND and BNHD alike; in THD [heads, total length, dim]. Each is
// representable in the type of its tensor.
struct ProblemValues {
  std::vector<float> query = {};   // [batch, query_heads, query_length, head_dim]
  std::vector<float> key = {};     // [batch, kv_heads, key_length, head_dim]
  std::vector<float> value = {};   // [batch, kv_heads, key_length, value_dim]
  uint64_t seed = 0;               // what they were made from, for reports
  std::vector<uint8_t> mask = {};  // of the mask's own shape; 0 is false, anything else true
  std::vector<float> bias = {};    // of the bias's own shape
};

// A problem and its tensors.
struct ProblemInstance {
  core::AttentionProblem problem;
  ProblemValues values;
};

// One query row. In layout THD `batch` is the sequence and `query` the row within it.
struct RowPosition {
  int64_t batch = 0;
  int64_t head = 0;   // query head
  int64_t query = 0;  // row
  bool operator==(const RowPosition&) const = default;
};

// The queries and keys that batch element `b` has in memory: those of its sequence in layout THD, else query_length
// and key_length.
int64_t QueryRows(const core::AttentionProblem& problem, int64_t b);
int64_t KeyRows(const core::AttentionProblem& problem, int64_t b);
// Every query row, batch element by batch element and head by head.
std::vector<RowPosition> AllRows(const core::AttentionProblem& problem);

// The place of an element 0 in ProblemValues and ProblemResults::OutputValues. Query and output count query heads, key
// and value kv heads.
int64_t QueryIndex(const core::AttentionProblem& problem, int64_t b, int64_t h, int64_t i);
int64_t KeyIndex(const core::AttentionProblem& problem, int64_t b, int64_t kv_head, int64_t j);
int64_t ValueIndex(const core::AttentionProblem& problem, int64_t b, int64_t kv_head, int64_t j);
int64_t OutputIndex(const core::AttentionProblem& problem, int64_t b, int64_t h, int64_t i);
// Of a row in logsumexp.
int64_t RowIndex(const core::AttentionProblem& problem, int64_t b, int64_t h, int64_t i);
// Of key 0 of a row in scores, and in weights (which have no axis of heads where they are averaged). Nothing if the
// request names its rows and this is none of them.
std::optional<int64_t> ScoresIndex(const core::AttentionProblem& problem, const RowPosition& at);
std::optional<int64_t> WeightsIndex(const core::AttentionProblem& problem, const RowPosition& at);
// Where element 0 of a row of the output lies in memory, in elements, by the problem's layout.
int64_t OutputPlace(const core::AttentionProblem& problem, const RowPosition& at);
// Of the element of the mask or bias that holds for key `j` of a row, by right-aligned broadcasting.
int64_t BroadcastIndex(const core::BroadcastTensor& tensor, const RowPosition& at, int64_t j);

// The same in the problem's types and layout. Blocks are exactly as large as the tensors, so that an address sanitizer
// sees any access beyond, and aligned to no more than an element.
class ProblemBytes {
 public:
  ProblemBytes(const core::AttentionProblem& problem, const ProblemValues& values);
  core::AttentionInputs inputs() const;

  // The bytes themselves.
  const std::byte* query() const { return query_.data() + kMisalignment; }
  const std::byte* key() const { return key_.data() + kMisalignment; }
  const std::byte* value() const { return value_.data() + kMisalignment; }
  const uint8_t* mask() const { return mask_.data() + 1; }  // of the mask's shape, row-major; at no even address
  const std::byte* bias() const { return bias_.data() + kMisalignment; }  // of the bias's shape and type, row-major

 private:
  static constexpr size_t kMisalignment = 4;
  std::vector<std::byte> query_;
  std::vector<std::byte> key_;
  std::vector<std::byte> value_;
  std::vector<uint8_t> mask_;
  std::vector<std::byte> bias_;
};

// Where a problem's results go, filled with a pattern that no computation writes, so that a byte left out is seen.
class ProblemResults {
 public:
  explicit ProblemResults(const core::AttentionProblem& problem);
  core::AttentionResults results();

  // Numbers, [batch, query_heads, query_length, value_dim] whatever the layout; [query_heads, total length, value_dim]
  // in THD. Empty if the problem omits the output.
  std::vector<float> OutputValues(const core::AttentionProblem& problem) const;

  // In the output's type and the problem's layout.
  std::vector<std::byte> output;
  // Each empty unless asked for.
  std::vector<float> weights;    // [batch, query_heads, rows, key_length], without the heads if averaged
  std::vector<float> scores;     // [batch, query_heads, rows, key_length]
  std::vector<float> logsumexp;  // [batch, query_heads, query_length]; [query_heads, total length] in THD

  // The same bits in every result that both have. Says what differs first; empty if nothing does.
  std::string FirstDifference(const ProblemResults& other) const;
};

// "f32 b1 h8/2 q16 k17 d64/32 causal=top_left scale=0.5 key_lengths=3,4 weights": for reports.
std::string Describe(const core::AttentionProblem& problem);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_PROBLEM_VALUES_H_
