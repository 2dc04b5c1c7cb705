// Problems made from others: what metamorphic tests compare with each other.
#ifndef ATTEND_TESTS_CONFORMANCE_PROBLEM_CHANGE_H_
#define ATTEND_TESTS_CONFORMANCE_PROBLEM_CHANGE_H_

#include <cstdint>
#include <vector>

#include "core/attention_problem.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// A problem taken apart, to be changed and put together again.
struct ProblemParts {
  core::AttentionShape shape;
  core::ElementType type;
  core::AttentionOptions options;
  core::ResultSelection results;
  ProblemValues values;

  static ProblemParts Of(const ProblemInstance& instance);
  ProblemInstance ToInstance() const;  // legal
};

// Batch element `b` as a problem of its own; in layout THD its sequence, in that layout.
ProblemInstance ElementAlone(const ProblemInstance& whole, int64_t b);
// Of a problem in layout THD: sequence `b` as one in layout BHND.
ProblemInstance SequenceAsBatchElement(const ProblemInstance& whole, int64_t b);

// A key in the list of SelectKeys that the problem does not have: masked, its numbers `padding`.
inline constexpr int64_t kPaddingKey = -1;
// The problem with these of its keys, in this order, with their values, mask and bias. Options that count positions or
// keys stay as they are. Not in layout THD.
ProblemInstance SelectKeys(const ProblemInstance& whole, const std::vector<int64_t>& keys, float padding = 0);
// The inverse for results: weights and scores of `selected` at the places that the keys have in `whole`; the rest as it
// is. Keys that were not selected keep the pattern of what is not written.
ProblemResults RestoreKeys(const ProblemInstance& whole, const std::vector<int64_t>& keys,
                           const ProblemResults& selected);

// `added` [batch, query_heads, query_length] to all scores of each row, through the bias, which becomes f32. Not in
// layout THD.
ProblemInstance AddToRows(const ProblemInstance& whole, const std::vector<float>& added);

// Every query head with a kv head of its own.
ProblemInstance ExpandHeads(const ProblemInstance& whole);

// The problem without what counts positions: causal mask, offsets, windows, ALiBi and key_lengths.
ProblemInstance WithoutPositions(const ProblemInstance& whole);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_CONFORMANCE_PROBLEM_CHANGE_H_
