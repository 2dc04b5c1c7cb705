// The online softmax over one tile of scores (Milakov and Gimelshein, 2018), and what turns sums into results. SIMD,
// dispatched at run time.
//
// A row keeps `maximum`, the largest scaled score seen (or one at most 8 binary orders of magnitude smaller: the rows
// that were accumulated before are rescaled only when it grows by more than that), and `sum`, of exp(score - maximum).
// Bits depend on the position of a key in its tile, never on how many masked keys follow it: which lane and which of
// the partial sums takes a key is its position's business, and keys that are not visible add an exact 0.
//
// Numbers that are not numbers: the maximum ignores NaN, the exponentials keep it, so a NaN that a row sees ends in its
// sum. A maximum of +inf makes the sum NaN. While all visible scores are -inf, they count as 0.
#ifndef ATTEND_CORE_SOFTMAX_H_
#define ATTEND_CORE_SOFTMAX_H_

#include <cstdint>

#include "core/element_type.h"
#include "core/scores_tile.h"

namespace attend::core {

// The running state of the rows: arrays of tile.rows.
struct RowState {
  float* maximum = nullptr;     // -inf at first
  float* sum = nullptr;         // 0 at first
  float* correction = nullptr;  // out: what was accumulated with the weights of earlier tiles is to be multiplied by it
};

// Replaces the scores by weights relative to the maximum, exp(scale * score - maximum), 0 for keys that are not
// visible, and updates the state.
void UpdateSoftmax(const ScoresTile& tile, const RowState& state);

// accumulator [rows, columns]: multiplies each row whose correction is not 1 by it.
void RescaleRows(const float* correction, int rows, int columns, float* accumulator);

// Where a row of a tile goes in a result: the tile's keys among the `width` keys of a part of the row.
struct TilePlace {
  int first = 0;  // where key 0 of the tile lies in the part, a multiple of kKeyGranule
  int width = 0;
};

// Where the weights of one row go.
struct WeightsRow {
  float* to = nullptr;  // the part; null if they are not asked for
  bool add = false;     // to what is there
  float divisor = 1;    // of the sum
};

// Writes the final weights exp(scale * score - maximum) * factor, those of `place.width` keys to each row: 0 for keys
// that are not visible or outside of the tile. `maximum` and `factor` are by row.
void WriteWeights(const ScoresTile& tile, const float* maximum, const float* factor, const TilePlace& place,
                  const WeightsRow* rows);

// Writes scale * score likewise, to `rows` that are not null: -inf for keys that are not visible or outside of the
// tile.
void WriteScores(const ScoresTile& tile, const TilePlace& place, float* const* rows);

// Rounds to nearest, ties to even; NaN stays NaN.
void RoundToBFloat16(const float* from, int64_t count, uint16_t* to);

// Writes from[i] * factor, rounded to `type` (to nearest, ties to even), to `to`. Every NaN is written as the same
// quiet NaN and every 0 as +0, so that results have the same bits whichever way those took: a product of weights that
// are all 0 and of the wrong sign may have been added or left out. Returns whether all products are finite, before they
// are rounded to `type`.
bool WriteScaledRow(const float* from, int count, float factor, ElementType type, void* to);

}  // namespace attend::core

#endif  // ATTEND_CORE_SOFTMAX_H_
