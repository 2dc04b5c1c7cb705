// What happens to scores between their product and the softmax, in the order of the contract: scale, softcap, bias,
// ALiBi. Tiles of plain attention take none of these steps: their scale is the softmax's business. SIMD, dispatched at
// run time.
//
// Every step multiplies with the scale that the tile still has and leaves 1. Granules of a row of which it sees nothing
// are left as they are.
#ifndef ATTEND_CORE_SCORE_TRANSFORM_H_
#define ATTEND_CORE_SCORE_TRANSFORM_H_

#include <cstdint>

#include "core/scores_tile.h"

namespace attend::core {

// softcap * tanh(scale * score / softcap), for a softcap above 0. NaN stays NaN; infinite scores become +-softcap.
void CapScores(float softcap, ScoresTile& tile);

// scale * score + bias, the product rounded before the sum.
void AddBias(const TileTensor& bias, ScoresTile& tile);

// scale * score - slope * |position - key|, all three rounded (Press et al., "Train Short, Test Long", 2022, on both
// sides of the query). By row: its head's slope, and its query's position relative to the tile's first key.
struct TileSlopes {
  const float* slopes = nullptr;
  const int64_t* positions = nullptr;
};
void AddDistances(const TileSlopes& slopes, ScoresTile& tile);

}  // namespace attend::core

#endif  // ATTEND_CORE_SCORE_TRANSFORM_H_
