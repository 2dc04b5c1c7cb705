// Which keys of a tile its rows see, as bits: made from positions, masks and biases alone, before there are scores, so
// that no number decides what is there. SIMD, dispatched at run time.
#ifndef ATTEND_CORE_VISIBILITY_H_
#define ATTEND_CORE_VISIBILITY_H_

#include <cstdint>

#include "core/scores_tile.h"

namespace attend::core {

// Sets the words of one row: it sees keys [begin, end) of the tile, both in [0, kKeyBlock].
void SeeRange(int begin, int end, uint64_t* words);

// Clear the bits, [rows, kBlockGranules], of keys that a mask excludes, a byte of 0 (its type is not looked at), or
// that have a bias of -inf. Keys without elements keep theirs.
void ExcludeFalse(const TileTensor& mask, int rows, uint64_t* visible);
void ExcludeInfinite(const TileTensor& bias, int rows, uint64_t* visible);

}  // namespace attend::core

#endif  // ATTEND_CORE_VISIBILITY_H_
