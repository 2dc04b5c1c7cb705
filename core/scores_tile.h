// A tile of scores on its way from the product that made it to the weights that it becomes.
#ifndef ATTEND_CORE_SCORES_TILE_H_
#define ATTEND_CORE_SCORES_TILE_H_

#include <cstdint>

#include "core/element_type.h"
#include "core/matmul.h"

namespace attend::core {

// Granules of a key block. A bit per key in a word per granule says which keys of a block a row sees.
inline constexpr int kBlockGranules = kKeyBlock / kKeyGranule;

// rows x keys scores [rows, keys], compact; keys is a multiple of kKeyGranule.
struct ScoresTile {
  float* scores = nullptr;
  // [rows, kBlockGranules]: bit j % 64 of word j / 64 of a row says whether it sees key j of the tile. Null if every
  // row sees every key, which is the fast case.
  const uint64_t* visible = nullptr;
  int rows = 0;
  int keys = 0;
  float scale = 1;  // still to be multiplied with
};

// The elements of a broadcast tensor that belong to a tile.
struct TileTensor {
  const void* const* rows = nullptr;  // by row of the tile: where the element of the tile's first key lies
  ElementType type = ElementType::kFloat32;
  bool per_key = true;  // false: the first element is that of every key
  int keys = 0;         // keys of the tile that have elements, at most those of the tile
};

}  // namespace attend::core

#endif  // ATTEND_CORE_SCORES_TILE_H_
