// How one problem is cut: what its tiles look like and which products they need. No state of a computation.
#ifndef ATTEND_CORE_TILING_H_
#define ATTEND_CORE_TILING_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/matmul.h"
#include "core/packed_key_value.h"
#include "core/tile_kernels.h"

namespace attend::core {

// The query heads of one kv head ("a head" below) are the rows of one matrix, position by position: row r is query
// r / group of query head r % group. So a block of rows covers few positions, and the causal mask trims it well.
struct Tiling {
  KeyValueFormat format;
  int64_t heads = 0;         // batch * kv_heads; 0 if there is nothing to compute
  int64_t rows = 0;          // of a head: group * query_length
  int64_t query_block = 0;   // rows of a block of queries: no bit of a result depends on it
  int64_t blocks = 0;        // of a head
  int64_t key_capacity = 0;  // the most keys that a head's queries see
  std::shared_ptr<const TileProduct> scores;
  std::shared_ptr<const TileProduct> weighted_sum;

  // INTERNAL if the back end fails.
  static absl::StatusOr<Tiling> Create(const AttentionProblem& problem, const TileKernels::State& kernels);

  // Keys [0, SeenKeys) of batch element b are seen by a query: what is packed.
  static int64_t SeenKeys(const AttentionProblem& problem, int64_t b);

  // Heads that are packed at the same time, at most: one whose queries are being handed out, one packed ahead of it,
  // and one more for every other worker, which may still hold a block of an earlier head.
  int64_t PackedHeads(int workers) const;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_TILING_H_
