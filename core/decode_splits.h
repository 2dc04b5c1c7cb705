// Decode: few query rows against many keys. How such problems are cut. No state of a computation.
//
// Their time is that of reading keys and values, once, so nothing is packed, and the keys of a head are split over the
// workers. Each split has sums, maxima and weights of its own, merged in their order when the last one is there.
#ifndef ATTEND_CORE_DECODE_SPLITS_H_
#define ATTEND_CORE_DECODE_SPLITS_H_

#include <cstdint>

#include "core/attention_problem.h"

namespace attend::core {

// Rows of a head, its queries times the query heads of its group, up to which a batch element is computed so. Beyond
// that the arithmetic of packed products wins.
inline constexpr int kMaxDecodeRows = 16;
// Keys that one step computes. Splits are whole numbers of these, at absolute multiples.
inline constexpr int kDecodePiece = 512;
// Splits of a head, at most: what they leave to be merged does not grow with the number of keys.
inline constexpr int kMaxDecodeSplits = 64;

class DecodeSplits {
 public:
  // Whether batch element b is computed so: by the shape of the element alone.
  static bool Takes(const AttentionProblem& problem, int64_t b);

  DecodeSplits() = default;  // of no problem: takes nothing
  // `problem` outlives the result.
  explicit DecodeSplits(const AttentionProblem& problem);

  int64_t heads() const { return heads_; }          // batch * kv_heads; 0 if no element is taken
  bool takes_all() const { return takes_all_; }     // that have queries
  int Rows(int64_t b) const;                        // of each head of batch element b; 0 if it is not taken
  int max_rows() const { return max_rows_; }        // the largest of them
  int64_t Count(int64_t b) const;                   // splits of each head of it, at least 1 where it has rows
  int64_t max_count() const { return max_count_; }  // the largest of them
  int64_t total() const { return total_; }          // of all heads; saturates at the largest int64
  // The keys of a split that some row may see, from a granule on.
  KeyRange Keys(int64_t b, int64_t split) const;

 private:
  int64_t Length(int64_t b) const;

  const AttentionProblem* problem_ = nullptr;
  int64_t heads_ = 0;
  bool takes_all_ = false;
  int64_t total_ = 0;
  int max_rows_ = 0;
  int64_t max_count_ = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_DECODE_SPLITS_H_
