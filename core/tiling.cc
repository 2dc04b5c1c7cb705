#include "core/tiling.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/tile_state.h"

namespace attend::core {
namespace {

int64_t CeilDivide(int64_t count, int64_t unit) { return count / unit + (count % unit != 0 ? 1 : 0); }

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// What a worker is worth waking for: about 45 us of multiply-adds at dim 64 on AVX-512. Waking takes 5 to 10. Decode
// waits for the memory: fewer take as long.
constexpr int64_t kWorkOfAWorker = 2'000'000;
constexpr int64_t kDecodeOfAWorker = 500'000;

int CountUsefulWorkers(const AttentionProblem& problem, int64_t work_of_one, int workers) {
  return static_cast<int>(std::clamp<int64_t>(problem.MultiplyAdds() / work_of_one, 1, workers));
}

// Blocks of about one size that leave every worker two items; large dims get smaller blocks, so that a tile stays in
// the processor's second-level cache.
int64_t ChooseQueryBlock(int64_t heads, int64_t rows, int dims, int workers) {
  constexpr int64_t kLeast = 64;  // fewer rows waste time in the products
  constexpr int64_t kGranule = 16;
  constexpr int kLargeDims = 512;
  const int64_t most = dims > kLargeDims ? 64 : kMaxTileRows;
  const int64_t wanted = workers == 1 ? 1 : 2 * int64_t{workers};
  const int64_t blocks = std::max(CeilDivide(rows, most), CeilDivide(wanted, heads));
  return std::clamp(CeilDivide(CeilDivide(rows, blocks), kGranule) * kGranule, kLeast, most);
}

}  // namespace

absl::StatusOr<Tiling> Tiling::Create(const AttentionProblem& problem, const TileKernels::State& kernels) {
  const AttentionShape& shape = problem.shape();
  Tiling tiling;
  tiling.problem_ = &problem;
  KeyValueFormat& format = tiling.format_;
  format.head_dim = static_cast<int>(shape.head_dim);
  format.value_dim = problem.results().omit_output ? 0 : static_cast<int>(shape.value_dim);
  format.type = problem.type();
  format.product = kernels.product_type(problem.type(), problem.options().compute_type);
  format.share_values = format.CanShareValues(problem.ValueStrides().row);
  tiling.SelectRows();
  if (!kernels.tiles_only()) tiling.decode_ = DecodeSplits(problem);
  // A legal batch of 2^40 without queries must cost nothing.
  if (shape.batch == 0 || shape.query_length == 0) return tiling;
  if (tiling.decode_.takes_all()) {
    tiling.useful_workers_ = CountUsefulWorkers(problem, kDecodeOfAWorker, kernels.workers());
    return tiling;
  }

  if (absl::Status created = tiling.CreateProducts(kernels.matmul()); !created.ok()) return created;
  tiling.heads_ = shape.batch * shape.kv_heads;
  tiling.CutQueries(kernels.workers());
  format.in_place = tiling.ReadsInPlace();
  tiling.padded_block_ = kernels.matmul().PaddedRows(static_cast<int>(tiling.query_block_));
  const int64_t distinct = problem.ElementsAreAlike() ? 1 : shape.batch;
  for (int64_t b = 0; b < distinct; ++b) {
    if (tiling.Blocks(b) > 0) tiling.key_capacity_ = std::max(tiling.key_capacity_, tiling.PackedKeys(b).count());
  }
  return tiling;
}

absl::Status Tiling::CreateProducts(Matmul& matmul) {
  const auto panels = matmul.Panels(format_.product, format_.padded_head_dim());
  if (!panels.ok()) return panels.status();
  format_.panels = *panels;
  auto scores = matmul.Scores(format_.product, format_.padded_head_dim());
  if (!scores.ok()) return scores.status();
  scores_ = *std::move(scores);
  if (format_.value_dim == 0) return absl::OkStatus();
  auto weighted_sum = matmul.WeightedSum(format_.product, format_.padded_value_dim());
  if (!weighted_sum.ok()) return weighted_sum.status();
  weighted_sum_ = *std::move(weighted_sum);
  return absl::OkStatus();
}

void Tiling::CutQueries(int workers) {
  const AttentionShape& shape = problem_->shape();
  const int64_t group = problem_->group_size();
  const bool ragged = problem_->options().layout == Layout::kTHD;
  const int64_t alike = ragged ? shape.kv_heads : heads_;  // heads whose queries are counted by query_length
  const int dims = format_.padded_head_dim() + format_.padded_value_dim();
  useful_workers_ = CountUsefulWorkers(*problem_, kWorkOfAWorker, workers);
  query_block_ = ChooseQueryBlock(alike, group * shape.query_length, dims, useful_workers_);
  const bool average = problem_->results().average_weights_over_heads && shape.key_length > 0;
  if (average && group <= kMaxTileRows) query_block_ = std::max<int64_t>(1, query_block_ / group) * group;
  if (average) pieces_ = CeilDivide(group, query_block_);
  if (ragged) {
    for (int64_t b = 0; b < shape.batch; ++b) total_blocks_ += Blocks(b) * shape.kv_heads;
  } else {
    total_blocks_ = SaturatingMultiply(heads_, Blocks(0));
  }
  if (average) turn_counters_ = SaturatingMultiply(shape.batch, Blocks(0) / pieces_);
}

// Packing pays where several blocks read what was packed.
bool Tiling::ReadsInPlace() const {
  constexpr int64_t kMostBlocks = 4;
  return Blocks(0) <= kMostBlocks && problem_->options().layout != Layout::kTHD &&
         problem_->shape().key_length % kKeyGranule == 0 && format_.CanReadKeyRows(problem_->KeyStrides().row) &&
         (format_.share_values || format_.value_dim == 0);
}

void Tiling::SelectRows() {
  const std::vector<int64_t>& rows = problem_->results().weight_query_rows;
  selected_.reserve(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) selected_.push_back({rows[r], static_cast<int64_t>(r)});
  std::sort(selected_.begin(), selected_.end(), [](const auto& a, const auto& b) { return a.query < b.query; });
}

int64_t Tiling::Rows(int64_t b) const { return problem_->group_size() * problem_->QueryCount(b); }

int64_t Tiling::Blocks(int64_t b) const {
  if (decode_.Rows(b) > 0) return 0;
  return pieces_ > 1 ? problem_->QueryCount(b) * pieces_ : CeilDivide(Rows(b), query_block_);
}

BlockRows::Place Tiling::PlaceOf(int64_t head, int64_t block) const {
  const int64_t kv_heads = problem_->shape().kv_heads;
  BlockRows::Place place = {.batch = head / kv_heads, .kv_head = head % kv_heads};
  int64_t end = Rows(place.batch);
  if (pieces_ == 1) {
    place.first = block * query_block_;
  } else {
    const int64_t group = problem_->group_size();
    place.first = block / pieces_ * group + block % pieces_ * query_block_;
    end = (block / pieces_ + 1) * group;
  }
  place.count = static_cast<int>(std::min(query_block_, end - place.first));
  return place;
}

KeyRange Tiling::PackedKeys(int64_t b) const {
  if (scores_every_key()) return {.begin = 0, .end = problem_->shape().key_length};
  const KeyRange seen = problem_->SeenKeys(b);
  if (seen.count() == 0) return {};
  return {.begin = seen.begin / kKeyBlock * kKeyBlock, .end = seen.end};
}

int64_t Tiling::PackedHeads(int workers) const { return std::min<int64_t>(heads_, int64_t{workers} + 1); }

bool Tiling::scores_every_key() const {
  const ScoreStage stage = problem_->results().scores;
  return stage == ScoreStage::kScaled || stage == ScoreStage::kSoftcapped;
}

int64_t Tiling::WeightRow(int64_t i) const {
  if (selected_.empty()) return i;
  const auto found = std::lower_bound(selected_.begin(), selected_.end(), i,
                                      [](const Selected& selected, int64_t query) { return selected.query < query; });
  return found != selected_.end() && found->query == i ? found->row : -1;
}

bool Tiling::HasWeightRow(int64_t first, int64_t last) const {
  if (selected_.empty()) return true;
  const auto found = std::lower_bound(selected_.begin(), selected_.end(), first,
                                      [](const Selected& selected, int64_t query) { return selected.query < query; });
  return found != selected_.end() && found->query <= last;
}

Tiling::Turn Tiling::TurnOf(int64_t head, int64_t block) const {
  const int64_t kv_heads = problem_->shape().kv_heads;
  const int64_t b = head / kv_heads;
  return {.counter = b * (Blocks(b) / pieces_) + block / pieces_, .turn = head % kv_heads * pieces_ + block % pieces_};
}

}  // namespace attend::core
