// The online softmax over one tile of scores (Milakov and Gimelshein, 2018), and what turns sums into results. SIMD,
// dispatched at run time.
//
// A row keeps `maximum`, the largest scaled score seen (or one at most 8 binary orders of magnitude smaller: the rows
// that were accumulated before are rescaled only when it grows by more than that), and `sum`, of exp(score - maximum).
// Bits depend on the position of a key in its tile, never on how many masked keys follow it: which lane and which of
// the partial sums takes a key is its position's business, and masked keys add an exact 0.
//
// Numbers that are not numbers: the maximum ignores NaN, the exponentials keep it, so a NaN that a row sees ends in its
// sum. A maximum of +inf makes the sum NaN. While all visible scores are -inf, they count as 0.
#ifndef ATTEND_CORE_SOFTMAX_H_
#define ATTEND_CORE_SOFTMAX_H_

#include <cstdint>

#include "core/element_type.h"

namespace attend::core {

// rows x keys scores [rows, keys], compact; keys is a multiple of kKeyGranule. Row i sees its first visible[i] keys.
struct ScoresTile {
  float* scores = nullptr;
  const int* visible = nullptr;
  int rows = 0;
  int keys = 0;
  float scale = 1;
};

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

// Writes the final weights exp(scale * score - maximum) * inverse_sum of row i to destinations[i], `width` numbers:
// those from visible[i] on are 0.
void WriteWeights(const ScoresTile& tile, const float* maximum, const float* inverse_sum, int width,
                  float* const* destinations);

// Rounds to nearest, ties to even; NaN stays NaN.
void RoundToBFloat16(const float* from, int64_t count, uint16_t* to);

// Writes from[i] * factor, rounded to `type` (to nearest, ties to even), to `to`. Every NaN is written as the same
// quiet NaN, so that results have the same bits whichever way a NaN took.
void WriteScaledRow(const float* from, int count, float factor, ElementType type, void* to);

}  // namespace attend::core

#endif  // ATTEND_CORE_SOFTMAX_H_
