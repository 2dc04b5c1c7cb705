// A key that a row does not see gets weight 0. That is not enough where its value is infinite or NaN, because 0 times
// those is NaN. So granules that no row sees are left out of both products, and of those that some row sees in part,
// values are added key by key for each row if they are not all finite. Bits are the same either way: a row's sums take
// its keys one after the other, and an exact 0 more or less changes nothing.
//
// Sums that overflow are run again with smaller weights: core/query_block.cc says why.
#include "core/decode_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/row_products.h"
#include "core/softmax.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const void* ElementAt(const void* elements, int64_t index, ElementType type) {
  return static_cast<const std::byte*>(elements) + index * ElementBytes(type);
}

// The tile that begins at `first`, within `end`.
KeyRange TileKeys(int64_t first, int64_t end) {
  return {.begin = std::min(first, end), .end = std::min(end, (first / kKeyBlock + 1) * kKeyBlock)};
}

// What the rows of a tile see of one granule.
struct Sight {
  uint64_t any = ~uint64_t{0};  // keys that some row sees
  uint64_t all = ~uint64_t{0};  // keys that every row sees
};

Sight SightOf(const ScoresTile& tile, int granule) {
  if (tile.visible == nullptr) return {};
  Sight sight = {.any = 0, .all = ~uint64_t{0}};
  for (int i = 0; i < tile.rows; ++i) {
    const uint64_t word = tile.visible[i * kBlockGranules + granule];
    sight.any |= word;
    sight.all &= word;
  }
  return sight;
}

// What exponentials relative to `maximum` count for beside those relative to `largest`. NaN if this is infinite: so are
// the row's results then.
double WeightOf(float maximum, float largest) { return std::exp(double{maximum} - largest); }

// Rows [begin, end) of `rows`.
SourceRows Part(const SourceRows& rows, int64_t begin, int64_t end) {
  SourceRows part = rows;
  part.first = rows.row(begin);
  part.count = end - begin;
  return part;
}

// Calls use(begin, end) for each run of keys, in granules, that some row sees.
template <class Use>
void ForEachSeenRun(const ScoresTile& tile, int64_t keys, const Use& use) {
  if (tile.visible == nullptr) return use(0, keys);
  int64_t begin = -1;
  for (int64_t first = 0; first < keys; first += kKeyGranule) {
    const bool seen = SightOf(tile, static_cast<int>(first / kKeyGranule)).any != 0;
    if (seen && begin < 0) begin = first;
    if (!seen && begin >= 0) use(begin, first);
    if (!seen) begin = -1;
  }
  if (begin >= 0) use(begin, keys);
}

}  // namespace

int64_t DecodeSums::Bytes(int rows, int value_dim) {
  return FloatBytes(int64_t{rows} * ExpandedDim(value_dim)) + 2 * FloatBytes(rows) + AlignedBytes(rows);
}

DecodeSums DecodeSums::At(std::byte* memory, int rows, int value_dim) {
  DecodeSums at;
  at.sums = reinterpret_cast<float*>(memory);
  memory += FloatBytes(int64_t{rows} * ExpandedDim(value_dim));
  at.maximum = reinterpret_cast<float*>(memory);
  at.sum = reinterpret_cast<float*>(memory + FloatBytes(rows));
  at.sees = reinterpret_cast<bool*>(memory + 2 * FloatBytes(rows));
  return at;
}

int64_t DecodeBlock::Bytes(const AttentionProblem& problem, const DecodeSplits& splits) {
  const AttentionShape& shape = problem.shape();
  return FloatBytes(int64_t{splits.max_rows()} * ExpandedDim(static_cast<int>(shape.head_dim))) +
         2 * FloatBytes(ExpandedDim(static_cast<int>(shape.value_dim)));
}

absl::StatusOr<DecodeBlock> DecodeBlock::Create(const Task& task, BufferPool& buffers) {
  const int64_t bytes = Bytes(*task.problem, task.tiling->decode());
  Buffer buffer = buffers.Acquire(bytes);
  if (buffer.size() != bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of a query block"));
  }
  return DecodeBlock(task, std::move(buffer));
}

DecodeBlock::DecodeBlock(const Task& task, Buffer buffer) : task_(task), buffer_(std::move(buffer)) {
  const AttentionProblem& problem = *task_.problem;
  head_dim_ = static_cast<int>(problem.shape().head_dim);
  value_dim_ = problem.results().omit_output ? 0 : static_cast<int>(problem.shape().value_dim);
  queries_ = reinterpret_cast<float*>(buffer_.data());
  merged_ = reinterpret_cast<float*>(buffer_.data() +
                                     FloatBytes(int64_t{task_.tiling->decode().max_rows()} * ExpandedDim(head_dim_)));
}

void DecodeBlock::Begin(int64_t head) {
  const AttentionProblem& problem = *task_.problem;
  const int64_t b = head / problem.shape().kv_heads;
  rows_.Begin(problem, task_.inputs,
              {.batch = b, .kv_head = head % problem.shape().kv_heads, .count = task_.tiling->decode().Rows(b)});
  for (int i = 0; i < rows_.count(); ++i) {
    const int64_t index = problem.QueryIndex(b, rows_[i].head, rows_[i].query);
    const SourceRows row = {.first = ElementAt(task_.inputs.query, index, problem.type()),
                            .count = 1,
                            .dim = head_dim_,
                            .type = problem.type(),
                            .rounded = Rounds()};
    ExpandRows(row, queries_ + i * ExpandedDim(head_dim_));
  }
}

// Whether factors of products are to be bf16 though inputs are f32. They still are multiplied as floats.
bool DecodeBlock::Rounds() const {
  return task_.problem->type() == ElementType::kFloat32 && task_.tiling->format().product == ProductType::kBFloat16;
}

SourceRows DecodeBlock::KeyRows(const KeyRange& keys) const {
  const AttentionProblem& problem = *task_.problem;
  const int64_t index = problem.KeyIndex(rows_.place().batch, rows_.place().kv_head, keys.begin);
  return {.first = ElementAt(task_.inputs.key, index, problem.type()),
          .stride = problem.KeyStrides().row,
          .count = keys.count(),
          .dim = head_dim_,
          .type = problem.type(),
          .rounded = Rounds()};
}

SourceRows DecodeBlock::ValueRows(const KeyRange& keys) const {
  const AttentionProblem& problem = *task_.problem;
  const int64_t index = problem.ValueIndex(rows_.place().batch, rows_.place().kv_head, keys.begin);
  return {.first = ElementAt(task_.inputs.value, index, problem.type()),
          .stride = problem.ValueStrides().row,
          .count = keys.count(),
          .dim = value_dim_,
          .type = problem.type(),
          .rounded = Rounds()};
}

DecodeSums DecodeBlock::SplitAt(int64_t split, std::byte* splits) const {
  return DecodeSums::At(splits + split * DecodeSums::Bytes(rows_.count(), value_dim_), rows_.count(), value_dim_);
}

void DecodeBlock::BeginSplit(const DecodeSums& sums) const {
  std::fill_n(sums.sums, int64_t{rows_.count()} * ExpandedDim(value_dim_), 0.0f);
  std::fill_n(sums.maximum, rows_.count(), -kInfinity);
  std::fill_n(sums.sum, rows_.count(), 0.0f);
  std::fill_n(sums.sees, rows_.count(), false);
}

// Scores of the granules that some row sees, and zeros for keys that are not there.
void DecodeBlock::ComputeScores(const KeyRange& keys, const SourceRows& following, const ScoresTile& tile) const {
  const SourceRows rows = KeyRows(keys);
  SourceRows fetched = following;
  ForEachSeenRun(tile, keys.count(), [&](int64_t begin, int64_t end) {
    ScoreKeys(queries_, Part(rows, begin, end), fetched,
              {.first = tile.scores + begin, .stride = tile.keys, .rows = tile.rows});
    fetched.count = 0;
  });
  for (int i = 0; i < tile.rows; ++i) {
    float* const row = tile.scores + int64_t{i} * tile.keys;
    std::fill(row + keys.count(), row + tile.keys, 0.0f);
  }
}

// Replaces the tile's scores by weights.
void DecodeBlock::Weigh(const ScoresTile& tile, const RowState& state, TileWorkspace& workspace) const {
  UpdateSoftmax(tile, state);
  if (!Rounds()) return;
  const int64_t count = int64_t{tile.rows} * tile.keys;
  RoundToBFloat16(tile.scores, count, workspace.weights);
  ExpandBFloat16(workspace.weights, count, tile.scores);
}

void DecodeBlock::AddValues(const KeyRange& keys, const SourceRows& following, const ScoresTile& tile,
                            float* sums) const {
  const SourceRows values = ValueRows(keys);
  SourceRows fetched = following;
  const auto add = [&](int64_t begin, int64_t end) {
    if (begin == end) return;
    AddWeightedValues({.first = tile.scores + begin, .stride = tile.keys, .rows = tile.rows}, Part(values, begin, end),
                      fetched, sums);
    fetched.count = 0;
  };
  ForEachSeenRun(tile, keys.count(), [&](int64_t run_begin, int64_t run_end) {
    int64_t begin = run_begin;
    for (int64_t first = run_begin; first < run_end; first += kKeyGranule) {
      const KeyRange granule = {.begin = first, .end = std::min<int64_t>(first + kKeyGranule, run_end)};
      const bool every = SightOf(tile, static_cast<int>(first / kKeyGranule)).all == ~uint64_t{0};
      if (every || AllFinite(Part(values, granule.begin, granule.end))) continue;
      add(begin, first);
      begin = granule.end;
      AddSeenValues(granule, values, tile, sums);
    }
    add(begin, run_end);
  });
}

// Row by row and key by key, for keys of one granule of the tile.
void DecodeBlock::AddSeenValues(const KeyRange& granule, const SourceRows& values, const ScoresTile& tile,
                                float* sums) const {
  for (int i = 0; i < tile.rows; ++i) {
    const uint64_t word = tile.visible[i * kBlockGranules + granule.begin / kKeyGranule];
    float* const weights = tile.scores + int64_t{i} * tile.keys;
    for (int64_t j = granule.begin; j < granule.end; ++j) {
      if ((word >> (j - granule.begin) & 1) == 0) continue;
      AddWeightedValues({.first = weights + j, .stride = tile.keys, .rows = 1}, Part(values, j, j + 1), {},
                        sums + int64_t{i} * ExpandedDim(value_dim_));
    }
  }
}

int64_t DecodeBlock::Advance(const KeyRange& keys, int64_t end, const DecodeSums& sums,
                             TileWorkspace& workspace) const {
  std::array<float, kMaxDecodeRows> correction;
  int64_t multiply_adds = 0;
  for (int64_t first = keys.begin; first < keys.end;) {
    const KeyRange tile_keys = TileKeys(first, keys.end);
    first = tile_keys.end;
    ScoresTile tile = rows_.TileOf(tile_keys, workspace.scores, workspace.visible);
    if (!NoteSeen(tile, sums.sees)) continue;
    const SourceRows next = KeyRows(TileKeys(first, end));
    ComputeScores(tile_keys, value_dim_ > 0 ? ValueRows(tile_keys) : next, tile);
    rows_.Cap(tile);
    rows_.AddBiases(tile_keys.begin, tile);
    Weigh(tile, {.maximum = sums.maximum, .sum = sums.sum, .correction = correction.data()}, workspace);
    multiply_adds += tile_keys.count() * rows_.count() * (head_dim_ + value_dim_);
    if (value_dim_ == 0) continue;
    RescaleRows(correction.data(), rows_.count(), ExpandedDim(value_dim_), sums.sums);
    AddValues(tile_keys, next, tile, sums.sums);
  }
  return multiply_adds;
}

void DecodeBlock::Finish(std::byte* splits) {
  step_ = 0;
  again_steps_ = 0;
  for (int i = 0; i < rows_.count(); ++i) {
    const RowSum row = MergeWeights(i, splits);
    const RowTotal total = Results().TotalOf(rows_, row);
    maximum_[i] = row.maximum;
    factor_[i] = total.factor;
    Results().WriteLogsumexp(rows_, i, total.logsumexp);
    const float* const sums = row.sees && value_dim_ > 0 ? MergeValues(row, splits) : nullptr;
    const bool finite = Results().WriteOutput(rows_, i, sums, total.factor);
    overflowed_[i] = !finite && !std::isnan(total.factor);
    if (!overflowed_[i]) continue;
    const KeyRange keys = rows_.keys();
    again_steps_ = (keys.end - 1) / kDecodePiece - keys.begin / kDecodePiece + 1;
  }
  weight_steps_ = Results().CountWeightTiles(rows_);
}

RowSum DecodeBlock::MergeWeights(int row, std::byte* splits) const {
  RowSum merged = {.row = row, .maximum = -kInfinity};
  const int64_t count = task_.tiling->decode().Count(rows_.place().batch);
  for (int64_t s = 0; s < count; ++s) {
    const DecodeSums split = SplitAt(s, splits);
    merged.sees |= split.sees[row];
    merged.maximum = std::max(merged.maximum, split.maximum[row]);
  }
  double sum = 0;
  for (int64_t s = 0; s < count; ++s) {
    const DecodeSums split = SplitAt(s, splits);
    sum += WeightOf(split.maximum[row], merged.maximum) * split.sum[row];
  }
  merged.sum = static_cast<float>(sum);
  return merged;
}

// In order, [value_dim].
const float* DecodeBlock::MergeValues(const RowSum& row, std::byte* splits) const {
  const int64_t count = task_.tiling->decode().Count(rows_.place().batch);
  const int64_t expanded = ExpandedDim(value_dim_);
  std::fill_n(merged_, expanded, 0.0f);
  for (int64_t s = 0; s < count; ++s) {
    const DecodeSums split = SplitAt(s, splits);
    const auto weight = static_cast<float>(WeightOf(split.maximum[row.row], row.maximum));
    const float* const sums = split.sums + row.row * expanded;
    for (int64_t x = 0; x < expanded; ++x) merged_[x] += weight * sums[x];
  }
  RestoreRow(merged_, value_dim_, task_.problem->type(), merged_ + expanded);
  return merged_ + expanded;
}

int64_t DecodeBlock::FinishStep(std::byte* splits, TileWorkspace& workspace) {
  return in_weights() ? AdvanceWeights(workspace) : AdvanceAgain(splits, workspace);
}

// The maxima stay: none would grow by enough.
int64_t DecodeBlock::AdvanceAgain(std::byte* splits, TileWorkspace& workspace) {
  const DecodeSums again = SplitAt(0, splits);
  if (step_ == 0) BeginSplit(again);
  const KeyRange all = rows_.keys();
  const int64_t piece = all.begin / kDecodePiece + step_++;
  const int64_t end = std::min(all.end, (piece + 1) * kDecodePiece);
  SourceRows none;
  for (int64_t first = std::max(all.begin, piece * kDecodePiece); first < end;) {
    const KeyRange keys = TileKeys(first, end);
    first = keys.end;
    ScoresTile tile = rows_.TileOf(keys, workspace.scores, workspace.visible);
    if (!NoteSeen(tile, again.sees)) continue;
    ComputeScores(keys, none, tile);
    rows_.Cap(tile);
    rows_.AddBiases(keys.begin, tile);
    std::array<float, kMaxDecodeRows> correction;
    Weigh(tile, {.maximum = maximum_.data(), .sum = again.sum, .correction = correction.data()}, workspace);
    for (int64_t x = 0; x < int64_t{tile.rows} * tile.keys; ++x) tile.scores[x] *= kOverflowScale;
    AddValues(keys, none, tile, again.sums);
  }
  if (step_ == again_steps_) {
    for (int i = 0; i < rows_.count(); ++i) {
      if (!overflowed_[i]) continue;
      RestoreRow(again.sums + i * ExpandedDim(value_dim_), value_dim_, task_.problem->type(), merged_);
      Results().WriteOverflowed(rows_, i, merged_, double{factor_[i]} / kOverflowScale);
    }
  }
  return (end - piece * kDecodePiece) * rows_.count() * (head_dim_ + value_dim_);
}

int64_t DecodeBlock::AdvanceWeights(TileWorkspace& workspace) {
  const int64_t weight_tile = step_++ - again_steps_;
  const KeyRange keys = Results().WeightKeys(rows_, weight_tile);
  const ScoresTile tile = rows_.TileOf(keys, workspace.scores, workspace.visible);
  ScoresTile needed = tile;
  if (task_.tiling->scores_every_key()) needed.visible = nullptr;
  if (keys.count() > 0) ComputeScores(keys, {}, needed);
  Results().WriteWeightTile(rows_, weight_tile, tile, {.maximum = maximum_.data(), .factor = factor_.data()});
  return int64_t{rows_.count()} * kKeyBlock * head_dim_;
}

}  // namespace attend::core
