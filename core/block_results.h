// What the rows of a block come to, written to where a problem's results go. No state of a computation.
#ifndef ATTEND_CORE_BLOCK_RESULTS_H_
#define ATTEND_CORE_BLOCK_RESULTS_H_

#include <cstdint>

#include "core/attention_problem.h"
#include "core/block_rows.h"
#include "core/scores_tile.h"
#include "core/softmax.h"
#include "core/tiling.h"

namespace attend::core {

// What a second pass multiplies values with where sums overflowed: those of less than 2^56 weights of at most 2^8 are
// below 2^64.
inline constexpr float kOverflowScale = 0x1p-64f;

// Row i of a block: exponentials of its scores relative to `maximum`, and their sum. `sees` says whether it has seen
// any key: decided from masks, never from numbers.
struct RowSum {
  int row = 0;
  bool sees = false;
  float maximum = 0;
  float sum = 0;
};

struct RowTotal {
  float factor = 0;     // makes weights of the exponentials
  float logsumexp = 0;  // of the scores, the sink included; if it is asked for
};

// By row: what exponentials are relative to, and the factors of the totals.
struct RowFactors {
  const float* maximum = nullptr;
  const float* factor = nullptr;
};

// Thread-safe for different rows.
class BlockResults {
 public:
  // `problem`, `tiling` and the results outlive this.
  BlockResults(const AttentionProblem& problem, const Tiling& tiling, const AttentionResults& results)
      : problem_(&problem), tiling_(&tiling), results_(results) {}

  RowTotal TotalOf(const BlockRows& rows, const RowSum& row) const;

  // The rest writes only what is asked for.

  void WriteLogsumexp(const BlockRows& rows, int i, float logsumexp) const;
  // sums [value_dim] * factor, or zeros if `sums` is null. Returns whether all products are finite.
  bool WriteOutput(const BlockRows& rows, int i, const float* sums, float factor) const;
  // The same product where the output that was written is not finite, and nothing else: all else has the bits that it
  // has beside any other column. Products of finite sums are means of finite values: rounding does not carry them
  // beyond the largest of these.
  void WriteOverflowed(const BlockRows& rows, int i, const float* sums, double factor) const;

  // Weights and scores take tiles of kKeyBlock keys: how many; 0 if these rows have none.
  int64_t CountWeightTiles(const BlockRows& rows) const;
  // The keys of one of them whose scores are needed: those that some row sees by its position, all if their scores are
  // asked for. None: an empty range inside of it.
  KeyRange WeightKeys(const BlockRows& rows, int64_t weight_tile) const;
  // From the scores of its WeightKeys().
  void WriteWeightTile(const BlockRows& rows, int64_t weight_tile, ScoresTile scores, const RowFactors& factors) const;

 private:
  void* OutputOf(const BlockRows& rows, int i) const;
  void WriteScoresOf(const BlockRows& rows, const ScoresTile& tile, const TilePlace& place, int64_t first_key) const;
  void WriteWeightsOf(const BlockRows& rows, const ScoresTile& tile, const TilePlace& place, const RowFactors& factors,
                      int64_t first_key) const;

  const AttentionProblem* problem_;
  const Tiling* tiling_;
  AttentionResults results_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_BLOCK_RESULTS_H_
