// The rows of one head of a decode problem on their way through its keys: what core/query_block.h is to packed tiles.
#ifndef ATTEND_CORE_DECODE_BLOCK_H_
#define ATTEND_CORE_DECODE_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/block_results.h"
#include "core/block_rows.h"
#include "core/buffer_pool.h"
#include "core/decode_splits.h"
#include "core/packing.h"
#include "core/scores_tile.h"
#include "core/tile_state.h"
#include "core/tiling.h"

namespace attend::core {

// What the rows of a head come to over one split of its keys, in memory of the head's.
struct DecodeSums {
  float* sums = nullptr;     // [rows, ExpandedDim(value_dim)], expanded: core/row_products.h
  float* maximum = nullptr;  // [rows], as the next two
  float* sum = nullptr;
  bool* sees = nullptr;  // whether the row has seen any key: decided from masks, never from numbers

  // Bytes of one, a multiple of a cache line's, and one at `memory`.
  static int64_t Bytes(int rows, int value_dim);
  static DecodeSums At(std::byte* memory, int rows, int value_dim);
};

// Used by one worker at a time, for one head after the other of one problem.
class DecodeBlock {
 public:
  // The problem with its tensors; all outlive the block.
  struct Task {
    const AttentionProblem* problem = nullptr;
    const Tiling* tiling = nullptr;  // its decode() says which heads and splits there are
    AttentionInputs inputs;
    AttentionResults results;
  };

  // Bytes that Create() takes from `buffers`.
  static int64_t Bytes(const AttentionProblem& problem, const DecodeSplits& splits);
  // RESOURCE_EXHAUSTED if `buffers` finds no memory.
  static absl::StatusOr<DecodeBlock> Create(const Task& task, BufferPool& buffers);

  // Starts on a head, [batch, kv_heads]: reads its queries.
  void Begin(int64_t head);

  // Starts on a split.
  void BeginSplit(const DecodeSums& sums) const;
  // Runs `keys` of it, which begin at a granule and lie in one piece, and fetches those that follow up to `end`.
  // Returns the multiply-adds.
  int64_t Advance(const KeyRange& keys, int64_t end, const DecodeSums& sums, TileWorkspace& workspace) const;

  // Merges the splits in their order, the first at `splits`, each DecodeSums::Bytes() long, and writes output and
  // logsumexp. FinishStep() may be left to be called.
  void Finish(std::byte* splits);
  // Runs another tile: of all keys, where sums overflowed, then of weights and scores. `splits` as above.
  int64_t FinishStep(std::byte* splits, TileWorkspace& workspace);
  bool finished() const { return step_ == again_steps_ + weight_steps_; }
  // Whether the next FinishStep() is for weights and scores.
  bool in_weights() const { return step_ >= again_steps_ && !finished(); }

 private:
  DecodeBlock(const Task& task, Buffer buffer);

  BlockResults Results() const { return {*task_.problem, *task_.tiling, task_.results}; }
  bool Rounds() const;
  SourceRows KeyRows(const KeyRange& keys) const;
  SourceRows ValueRows(const KeyRange& keys) const;
  DecodeSums SplitAt(int64_t split, std::byte* splits) const;
  void ComputeScores(const KeyRange& keys, const SourceRows& following, const ScoresTile& tile) const;
  void Weigh(const ScoresTile& tile, const RowState& state, TileWorkspace& workspace) const;
  void AddValues(const KeyRange& keys, const SourceRows& following, const ScoresTile& tile, float* sums) const;
  void AddSeenValues(const KeyRange& granule, const SourceRows& values, const ScoresTile& tile, float* sums) const;
  RowSum MergeWeights(int row, std::byte* splits) const;
  const float* MergeValues(const RowSum& row, std::byte* splits) const;
  int64_t AdvanceAgain(std::byte* splits, TileWorkspace& workspace);
  int64_t AdvanceWeights(TileWorkspace& workspace);

  Task task_;
  int head_dim_ = 0;
  int value_dim_ = 0;  // 0 if no values are needed
  Buffer buffer_;
  float* queries_ = nullptr;  // [rows, ExpandedDim(head_dim)], expanded
  float* merged_ = nullptr;   // [2, ExpandedDim(value_dim)]: expanded, in order

  BlockRows rows_;
  std::array<float, kMaxDecodeRows> maximum_;
  std::array<float, kMaxDecodeRows> factor_;
  std::array<bool, kMaxDecodeRows> overflowed_;
  int64_t step_ = 0;
  int64_t again_steps_ = 0;
  int64_t weight_steps_ = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_DECODE_BLOCK_H_
