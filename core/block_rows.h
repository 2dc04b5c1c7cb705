// What tiles need to know of the rows of a block of queries: whose they are, what they see, what is added to them.
#ifndef ATTEND_CORE_BLOCK_ROWS_H_
#define ATTEND_CORE_BLOCK_ROWS_H_

#include <array>
#include <cstdint>

#include "core/attention_problem.h"
#include "core/matmul.h"
#include "core/scores_tile.h"

namespace attend::core {

struct BlockRow {
  int64_t query = 0;  // of its batch element
  int64_t head = 0;   // of all query heads
  KeyRange keys;      // that it sees by its position
};

// The rows of one kv head from `first` on; core/tiling.h says which those are.
class BlockRows {
 public:
  struct Place {
    int64_t batch = 0;
    int64_t kv_head = 0;
    int64_t first = 0;
    int count = 0;  // 1 to kMaxTileRows
  };

  // `problem` and the tensors outlive this.
  void Begin(const AttentionProblem& problem, const AttentionInputs& inputs, const Place& place);

  const Place& place() const { return place_; }
  int count() const { return place_.count; }
  const BlockRow& operator[](int i) const { return rows_[i]; }

  // The keys that some row sees by its position, begin rounded down to a granule. Empty if none sees any.
  KeyRange keys() const;

  // Says in `words` [kMaxTileRows, kBlockGranules] which of the `keys` keys from `first` on each row sees: by its
  // position, the mask and a bias of -inf. Returns null if that is all of them, for every row; else `words`.
  const uint64_t* See(int64_t first, int keys, uint64_t* words) const;

  // The tile of `keys`, which begin at a granule and may be none, in memory of a worker's: `scores` are yet to be
  // computed, `visible` is as for See().
  ScoresTile TileOf(const KeyRange& keys, float* scores, uint64_t* visible) const;

  // The steps between the product and the softmax, for a tile that begins at key `first`. Nothing to do where the
  // problem has no such option.
  void Cap(ScoresTile& tile) const;
  void AddBiases(int64_t first, ScoresTile& tile) const;

 private:
  // By row, for a tile.
  using Pointers = std::array<const void*, kMaxTileRows>;

  TileTensor TensorRows(const void* elements, int64_t element_bytes, const BroadcastStrides& strides, int64_t first,
                        Pointers& rows) const;
  TileTensor BiasRows(int64_t first, Pointers& rows) const;
  void AddDistancesFrom(int64_t first, ScoresTile& tile) const;

  const AttentionProblem* problem_ = nullptr;
  AttentionInputs inputs_;
  Place place_;
  std::array<BlockRow, kMaxTileRows> rows_;
};

// Whether any row sees any key of the tile. Sets those of `sees` [tile.rows] that do.
bool NoteSeen(const ScoresTile& tile, bool* sees);

}  // namespace attend::core

#endif  // ATTEND_CORE_BLOCK_ROWS_H_
