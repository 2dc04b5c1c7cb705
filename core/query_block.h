// A block of query rows on its way through the keys: the running state of FlashAttention's outer loop, advanced one
// tile (its rows times a block of keys) at a time.
#ifndef ATTEND_CORE_QUERY_BLOCK_H_
#define ATTEND_CORE_QUERY_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/packed_key_value.h"
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
  struct Place {
    int64_t head = 0;   // batch element * kv_heads + kv head
    int64_t block = 0;  // which of the head's blocks
  };

  // Bytes that Create() takes.
  static int64_t Bytes(const Tiling& tiling);
  // RESOURCE_EXHAUSTED if `buffers` finds no memory.
  static absl::StatusOr<QueryBlock> Create(const Task& task, BufferPool& buffers);

  // Starts on a block: reads its queries. `packed` holds its head's keys and values; it is first read by Advance().
  // Null if the head sees no keys.
  void Begin(const Place& place, const PackedKeyValue* packed);

  // Runs the next tile; the last one for output also writes output and logsumexp. Tiles for the weights follow. Returns
  // the tile's multiply-adds. INTERNAL and RESOURCE_EXHAUSTED from the products.
  absl::StatusOr<int64_t> Advance(TileKernels::State& kernels, int worker);

  // Whether nothing is left of the block.
  bool done() const { return tile_ == score_tiles_ + weight_tiles_; }

 private:
  struct Tile;

  QueryBlock(const Task& task, Buffer buffer);

  int64_t QueryOf(int row) const;      // position
  int64_t QueryHeadOf(int row) const;  // of all query heads
  Tile MakeTile(int64_t block, int worker, TileWorkspace& workspace, int* visible) const;
  absl::Status ComputeScores(const Tile& tile) const;
  absl::Status Attend(const Tile& tile, TileKernels::State& kernels);
  absl::Status AddValues(const Tile& tile, const void* weights, const void* values);
  absl::Status AddFiniteValues(const Tile& tile, const void* weights, TileKernels::State& kernels);
  void AddOtherValues(const Tile& tile);
  void WriteResults();
  absl::Status WriteWeightsTile(int64_t block, TileKernels::State& kernels, int worker);

  Task task_;
  Buffer buffer_;
  void* queries_ = nullptr;   // [query_block, padded head_dim], of the product's type
  float* sums_ = nullptr;     // [query_block, padded value_dim]
  float* maximum_ = nullptr;  // [query_block], as the next three
  float* sum_ = nullptr;
  float* correction_ = nullptr;
  int64_t* visible_ = nullptr;  // ends of the keys that each row sees; never decreasing

  Place place_;
  const PackedKeyValue* packed_ = nullptr;
  int rows_ = 0;         // of this block
  int padded_rows_ = 0;  // of its products
  int64_t tile_ = 0;
  int64_t score_tiles_ = 0;
  int64_t weight_tiles_ = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_QUERY_BLOCK_H_
