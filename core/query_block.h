// A block of query rows on its way through the keys: the running state of FlashAttention's outer loop, advanced one
// tile (its rows times a block of keys) at a time.
#ifndef ATTEND_CORE_QUERY_BLOCK_H_
#define ATTEND_CORE_QUERY_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/block_results.h"
#include "core/block_rows.h"
#include "core/buffer_pool.h"
#include "core/packed_key_value.h"
#include "core/softmax.h"
#include "core/tile_state.h"
#include "core/tiling.h"

namespace attend::core {

// Used by one worker at a time, for one block after the other of one problem.
class QueryBlock {
 public:
  // The problem with its tensors; all outlive the block.
  struct Task {
    const AttentionProblem* problem = nullptr;
    const Tiling* tiling = nullptr;
    AttentionInputs inputs;
    AttentionResults results;
  };
  // A head's keys and values.
  struct PackedHead {
    const PackedKeyValue* packed = nullptr;  // null if no query of the head sees a key
    int64_t first_key = 0;                   // the position of its key 0
  };

  // Bytes that Create() takes from `buffers`.
  static int64_t Bytes(const Tiling& tiling);
  // RESOURCE_EXHAUSTED if `buffers` finds no memory.
  static absl::StatusOr<QueryBlock> Create(const Task& task, BufferPool& buffers);

  // Starts on a block: reads its queries. What is packed is first read by Advance().
  void Begin(const BlockRows::Place& place, const PackedHead& packed);

  // Runs the next tile; the last one for output also writes output and logsumexp. Where sums overflowed, all of these
  // are run again. Tiles for weights and scores follow.
  // Returns the tile's multiply-adds. INTERNAL and RESOURCE_EXHAUSTED from the products.
  absl::StatusOr<int64_t> Advance(TileKernels::State& kernels, int worker);

  // Whether nothing is left of the block.
  bool done() const { return tile_ == output_tiles_ + again_tiles_ + weight_tiles_; }
  // Whether the next tile is one for weights and scores.
  bool in_weights() const { return tile_ >= output_tiles_ + again_tiles_ && !done(); }

 private:
  struct Tile;

  QueryBlock(const Task& task, Buffer buffer);

  BlockResults Results() const { return {*task_.problem, *task_.tiling, task_.results}; }

  void PackQueries();
  const std::byte* QueryOf(int row) const;
  bool QueriesCanStay() const;
  void PadRows(const Matmul& matmul);
  Tile MakeTile(const KeyRange& keys, int worker, TileKernels::State& kernels) const;
  absl::Status ComputeScores(const Tile& tile) const;
  KeyRange OutputKeys(int64_t tile) const;
  int64_t OutputWork(const Tile& tile) const;
  const void* Weigh(const Tile& tile, const RowState& state, TileKernels::State& kernels) const;

  absl::StatusOr<int64_t> AdvanceOutput(TileKernels::State& kernels, int worker);
  absl::Status Attend(Tile& tile, TileKernels::State& kernels);
  absl::Status AddValues(const Tile& tile, const void* weights, const void* values);
  absl::Status AddFiniteValues(const Tile& tile, const void* weights, float factor, TileKernels::State& kernels);
  void AddOtherValues(const Tile& tile);
  void WriteResults();

  absl::StatusOr<int64_t> AdvanceAgain(TileKernels::State& kernels, int worker);

  absl::StatusOr<int64_t> AdvanceWeights(TileKernels::State& kernels, int worker);

  Task task_;
  Buffer buffer_;
  void* packed_queries_ = nullptr;  // [padded_block, padded head_dim], of the product's type
  const void* queries_ = nullptr;   // packed_queries_, or where they lie if they lie as products read them
  float* sums_ = nullptr;           // [padded_block, padded value_dim]
  float* maximum_ = nullptr;        // [padded_block], as the next two
  float* sum_ = nullptr;            // once results are written: what makes weights of exponentials
  float* correction_ = nullptr;

  BlockRows rows_;
  std::array<bool, kMaxTileRows> sees_;  // whether the row has seen any key: decided from masks, never from numbers
  std::array<bool, kMaxTileRows> overflowed_;  // whether the row's sums may have
  PackedHead head_;
  KeyRange keys_;          // that some row sees by its position
  int padded_rows_ = 0;    // of its products
  bool has_sums_ = false;  // whether sums_ holds anything
  int64_t tile_ = 0;
  int64_t output_tiles_ = 0;
  int64_t again_tiles_ = 0;
  int64_t weight_tiles_ = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_QUERY_BLOCK_H_
