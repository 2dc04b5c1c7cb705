#include "core/tiling.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/tile_state.h"

namespace attend::core {
namespace {

int64_t CeilDivide(int64_t count, int64_t unit) { return count / unit + (count % unit != 0 ? 1 : 0); }

// The largest block that leaves every worker two items; large dims get smaller blocks, so that a tile stays in the
// processor's second-level cache.
int64_t ChooseQueryBlock(int64_t heads, int64_t rows, int dims, int workers) {
  constexpr std::array<int64_t, 4> kBlocks = {kMaxTileRows, 96, 64, 48};
  constexpr int kLargeDims = 512;
  const int64_t wanted = 2 * int64_t{workers};
  for (const int64_t block : kBlocks) {
    if (dims > kLargeDims && block > 64) continue;
    if (heads >= wanted || CeilDivide(rows, block) >= CeilDivide(wanted, heads)) return block;
  }
  return kBlocks.back();
}

}  // namespace

int64_t Tiling::SeenKeys(const AttentionProblem& problem, int64_t b) {
  const int64_t queries = problem.shape().query_length;
  return queries == 0 ? 0 : problem.VisibleKeys(b, queries - 1).end;
}

int64_t Tiling::PackedHeads(int workers) const { return std::min<int64_t>(heads, int64_t{workers} + 1); }

absl::StatusOr<Tiling> Tiling::Create(const AttentionProblem& problem, const TileKernels::State& kernels) {
  const AttentionShape& shape = problem.shape();
  Tiling tiling;
  tiling.format.head_dim = static_cast<int>(shape.head_dim);
  tiling.format.value_dim = static_cast<int>(shape.value_dim);
  tiling.format.type = problem.type();
  tiling.format.product = kernels.product_type(problem.type());
  tiling.format.share_values = tiling.format.CanShareValues(problem.ValueStrides().row);
  // A legal batch of 2^40 without queries must cost nothing.
  if (problem.OutputBytes() == 0) return tiling;

  Matmul& matmul = kernels.matmul();
  const ProductType product = tiling.format.product;
  const auto panels = matmul.Panels(product, tiling.format.padded_head_dim());
  if (!panels.ok()) return panels.status();
  auto scores = matmul.Scores(product, tiling.format.padded_head_dim());
  if (!scores.ok()) return scores.status();
  auto weighted_sum = matmul.WeightedSum(product, tiling.format.padded_value_dim());
  if (!weighted_sum.ok()) return weighted_sum.status();
  tiling.format.panels = *panels;
  tiling.scores = *std::move(scores);
  tiling.weighted_sum = *std::move(weighted_sum);

  tiling.heads = shape.batch * shape.kv_heads;
  tiling.rows = problem.group_size() * shape.query_length;
  const int dims = tiling.format.padded_head_dim() + tiling.format.padded_value_dim();
  tiling.query_block = ChooseQueryBlock(tiling.heads, tiling.rows, dims, kernels.workers());
  tiling.blocks = CeilDivide(tiling.rows, tiling.query_block);
  const int64_t distinct = problem.options().key_lengths.empty() ? 1 : shape.batch;
  for (int64_t b = 0; b < distinct; ++b) tiling.key_capacity = std::max(tiling.key_capacity, SeenKeys(problem, b));
  return tiling;
}

}  // namespace attend::core
