// How one problem is cut: what its tiles look like and which products they need. No state of a computation.
#ifndef ATTEND_CORE_TILING_H_
#define ATTEND_CORE_TILING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/block_rows.h"
#include "core/decode_splits.h"
#include "core/matmul.h"
#include "core/packed_key_value.h"
#include "core/tile_kernels.h"

namespace attend::core {

// The query heads of one kv head ("a head" below) are the rows of one matrix, position by position: row r is query
// r / group of query head r % group. So a block of rows covers few positions, and the causal mask trims it well.
class Tiling {
 public:
  // `problem` outlives the result. INTERNAL if the back end fails.
  static absl::StatusOr<Tiling> Create(const AttentionProblem& problem, const TileKernels::State& kernels);

  // The batch elements that are not cut into blocks.
  const DecodeSplits& decode() const { return decode_; }

  const KeyValueFormat& format() const { return format_; }
  const TileProduct& scores() const { return *scores_; }
  const TileProduct& weighted_sum() const { return *weighted_sum_; }

  int64_t heads() const { return heads_; }                // batch * kv_heads; 0 if there are no blocks
  int64_t query_block() const { return query_block_; }    // rows of a block at most: no bit of a result depends on it
  int64_t padded_block() const { return padded_block_; }  // rows that the products of a block take at most
  int64_t Blocks(int64_t b) const;                        // of each head of batch element b
  int64_t total_blocks() const { return total_blocks_; }  // of all heads; saturates at the largest int64
  int useful_workers() const { return useful_workers_; }  // at the start: more would cost more than they save
  // The rows of a block of head `head`.
  BlockRows::Place PlaceOf(int64_t head, int64_t block) const;

  // The keys of batch element b that are packed: those that a query sees by its position, from a multiple of kKeyBlock
  // on; all if their scores are asked for.
  KeyRange PackedKeys(int64_t b) const;
  int64_t key_capacity() const { return key_capacity_; }  // the largest of their counts
  // Heads that are packed at the same time, at most: one whose queries are being handed out, one packed ahead of it,
  // and one more for every other worker, which may still hold a block of an earlier head.
  int64_t PackedHeads(int workers) const;

  // Whether scores of every key are results, of excluded ones, too.
  bool scores_every_key() const;
  // The row of query i in weights and scores, or -1 if it has none.
  int64_t WeightRow(int64_t i) const;
  // Whether any of the queries [first, last] has one.
  bool HasWeightRow(int64_t first, int64_t last) const;

  // With weights averaged over the heads, blocks at the same positions take turns to add theirs, so that sums have one
  // order. Block `block` of head `head` waits for `turn` others of the same `counter`, one of turn_counters().
  struct Turn {
    int64_t counter = 0;
    int64_t turn = 0;
  };
  Turn TurnOf(int64_t head, int64_t block) const;
  int64_t turn_counters() const { return turn_counters_; }  // 0 unless weights are averaged

  // Bytes of what Create() allocates.
  int64_t bytes() const { return static_cast<int64_t>(selected_.capacity() * sizeof(Selected)); }

 private:
  struct Selected {
    int64_t query;
    int64_t row;
  };

  absl::Status CreateProducts(Matmul& matmul);
  void CutQueries(int workers);
  bool ReadsInPlace() const;
  void SelectRows();
  int64_t Rows(int64_t b) const;  // of each head of batch element b

  const AttentionProblem* problem_ = nullptr;
  DecodeSplits decode_;
  KeyValueFormat format_;
  std::shared_ptr<const TileProduct> scores_;
  std::shared_ptr<const TileProduct> weighted_sum_;
  int64_t heads_ = 0;
  int useful_workers_ = 1;
  int64_t query_block_ = 0;
  int64_t padded_block_ = 0;
  int64_t pieces_ = 1;  // blocks of one position; more than 1 only where weights are averaged over very large groups
  int64_t total_blocks_ = 0;
  int64_t key_capacity_ = 0;
  int64_t turn_counters_ = 0;
  std::vector<Selected> selected_;  // by query; empty if every query has the row of its number
};

}  // namespace attend::core

#endif  // ATTEND_CORE_TILING_H_
