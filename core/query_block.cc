// A key that a row does not see gets weight 0. That is not enough where its value is infinite or NaN, because 0 times
// those is NaN. Packing records which granules of values hold such numbers. Where a tile has both rows that do not see
// all of its keys and such a granule, the product is run on a copy of the values in which they are 0, and what they add
// to the rows that do see them is added one by one. The other rows keep the bits that they have with any finite value.
//
// Sums are of weights that are yet to be divided by their own sum, so they may overflow where values are near the
// largest float, though a mean of values does not. Rows whose results are not finite, but for reasons of their scores,
// are run again with values that are 2^-64 of themselves. What is not finite then is so by the values alone.
//
// Weights and scores take another pass over the keys: a row's weights are known once its sum is.
#include "core/query_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/softmax.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t CountBlocks(int64_t keys) { return (keys + kKeyBlock - 1) / kKeyBlock; }

float LoadValue(const void* values, int64_t index, ProductType type) {
  if (type == ProductType::kFloat32) return static_cast<const float*>(values)[index];
  return BFloat16ToFloat(static_cast<const uint16_t*>(values)[index]);
}

void StoreValue(float value, void* values, int64_t index, ProductType type) {
  if (type == ProductType::kFloat32) {
    static_cast<float*>(values)[index] = value;
  } else {
    static_cast<uint16_t*>(values)[index] = FloatToBFloat16(value);
  }
}

bool Sees(const ScoresTile& tile, int row, int key) {
  return tile.visible == nullptr ||
         (tile.visible[row * kBlockGranules + key / kKeyGranule] >> (key % kKeyGranule) & 1) != 0;
}

}  // namespace

// This block's rows times some keys of one key block.
struct QueryBlock::Tile {
  int64_t first = 0;  // the position of its key 0
  int worker = 0;
  ScoresTile scores;
};

int64_t QueryBlock::Bytes(const Tiling& tiling) {
  const KeyValueFormat& format = tiling.format();
  const int64_t rows = tiling.padded_block();
  return AlignedBytes(rows * format.padded_head_dim() * ProductBytes(format.product)) +
         FloatBytes(rows * format.padded_value_dim()) + 3 * FloatBytes(rows);
}

absl::StatusOr<QueryBlock> QueryBlock::Create(const Task& task, BufferPool& buffers) {
  const int64_t bytes = Bytes(*task.tiling);
  Buffer buffer = buffers.Acquire(bytes);
  if (buffer.size() != bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of a query block"));
  }
  return QueryBlock(task, std::move(buffer));
}

QueryBlock::QueryBlock(const Task& task, Buffer buffer) : task_(task), buffer_(std::move(buffer)) {
  const KeyValueFormat& format = task_.tiling->format();
  const int64_t rows = task_.tiling->padded_block();
  std::byte* next = buffer_.data();
  const auto take = [&next](int64_t bytes) {
    std::byte* const part = next;
    next += bytes;
    return static_cast<void*>(part);
  };
  packed_queries_ = take(AlignedBytes(rows * format.padded_head_dim() * ProductBytes(format.product)));
  sums_ = static_cast<float*>(take(FloatBytes(rows * format.padded_value_dim())));
  maximum_ = static_cast<float*>(take(FloatBytes(rows)));
  sum_ = static_cast<float*>(take(FloatBytes(rows)));
  correction_ = static_cast<float*>(take(FloatBytes(rows)));
}

void QueryBlock::Begin(const BlockRows::Place& place, const PackedHead& packed) {
  rows_.Begin(*task_.problem, task_.inputs, place);
  head_ = packed;
  keys_ = rows_.keys();
  PackQueries();
  std::fill_n(maximum_, place.count, -kInfinity);
  std::fill_n(sum_, place.count, 0.0f);
  std::fill_n(sees_.begin(), place.count, false);
  has_sums_ = false;
  padded_rows_ = 0;
  tile_ = 0;
  output_tiles_ = std::max<int64_t>(1, CountBlocks(keys_.end) - keys_.begin / kKeyBlock);
  again_tiles_ = 0;
  weight_tiles_ = Results().CountWeightTiles(rows_);
}

const std::byte* QueryBlock::QueryOf(int row) const {
  const int64_t index = task_.problem->QueryIndex(rows_.place().batch, rows_[row].head, rows_[row].query);
  return static_cast<const std::byte*>(task_.inputs.query) + index * ElementBytes(task_.problem->type());
}

// Whether the rows lie one after the other as products read them, with none to be added.
bool QueryBlock::QueriesCanStay() const {
  const KeyValueFormat& format = task_.tiling->format();
  const bool full = rows_.count() == task_.tiling->query_block() && rows_.count() == task_.tiling->padded_block();
  const bool same_type =
      ElementBytes(format.type) == ProductBytes(format.product) && format.type != ElementType::kFloat16;
  if (!full || !same_type || format.head_dim != format.padded_head_dim()) return false;
  const Strides strides = task_.problem->QueryStrides();
  const int64_t group = task_.problem->group_size();
  if (group == 1) return strides.row == format.head_dim;
  const bool one_query = rows_[0].query == rows_[rows_.count() - 1].query;
  return strides.head == format.head_dim && (one_query || strides.row == group * format.head_dim);
}

void QueryBlock::PackQueries() {
  const KeyValueFormat& format = task_.tiling->format();
  queries_ = QueriesCanStay() ? QueryOf(0) : packed_queries_;
  if (queries_ != packed_queries_) return;
  const int64_t row_bytes = format.padded_head_dim() * ProductBytes(format.product);
  for (int i = 0; i < rows_.count(); ++i) {
    const SourceRows row = {
        .first = QueryOf(i), .stride = format.head_dim, .count = 1, .dim = format.head_dim, .type = format.type};
    PackRows(row, format.padded_head_dim(), 1, format.product,
             static_cast<std::byte*>(packed_queries_) + i * row_bytes);
  }
}

void QueryBlock::PadRows(const Matmul& matmul) {
  const KeyValueFormat& format = task_.tiling->format();
  const int rows = rows_.count();
  padded_rows_ = matmul.PaddedRows(rows);
  const int64_t row_bytes = format.padded_head_dim() * ProductBytes(format.product);
  std::memset(static_cast<std::byte*>(packed_queries_) + rows * row_bytes, 0, (padded_rows_ - rows) * row_bytes);
}

QueryBlock::Tile QueryBlock::MakeTile(const KeyRange& keys, int worker, TileKernels::State& kernels) const {
  TileWorkspace& workspace = kernels.workspace(worker);
  return {.first = keys.begin, .worker = worker, .scores = rows_.TileOf(keys, workspace.scores, workspace.visible)};
}

absl::Status QueryBlock::ComputeScores(const Tile& tile) const {
  return task_.tiling->scores().Run(tile.worker, {.rows = padded_rows_,
                                                  .keys = tile.scores.keys,
                                                  .key_rows = task_.tiling->format().in_place,
                                                  .left = queries_,
                                                  .right = head_.packed->Keys(tile.first - head_.first_key),
                                                  .result = tile.scores.scores});
}

absl::StatusOr<int64_t> QueryBlock::Advance(TileKernels::State& kernels, int worker) {
  if (padded_rows_ == 0) PadRows(kernels.matmul());
  if (tile_ < output_tiles_) return AdvanceOutput(kernels, worker);
  return in_weights() ? AdvanceWeights(kernels, worker) : AdvanceAgain(kernels, worker);
}

// The keys of tile `tile` of those for output. There are none only if no row sees any by its position.
KeyRange QueryBlock::OutputKeys(int64_t tile) const {
  if (keys_.count() == 0) return {};
  const int64_t block = keys_.begin / kKeyBlock + tile;
  return {.begin = std::max(keys_.begin, block * kKeyBlock), .end = std::min(keys_.end, (block + 1) * kKeyBlock)};
}

int64_t QueryBlock::OutputWork(const Tile& tile) const {
  const KeyValueFormat& format = task_.tiling->format();
  return int64_t{rows_.count()} * tile.scores.keys * (format.head_dim + format.value_dim);
}

absl::StatusOr<int64_t> QueryBlock::AdvanceOutput(TileKernels::State& kernels, int worker) {
  const KeyRange keys = OutputKeys(tile_++);
  int64_t multiply_adds = 0;
  if (keys.count() > 0) {
    Tile tile = MakeTile(keys, worker, kernels);
    if (NoteSeen(tile.scores, sees_.data())) {
      if (absl::Status attended = Attend(tile, kernels); !attended.ok()) return attended;
      multiply_adds = OutputWork(tile);
    }
  }
  if (tile_ == output_tiles_) WriteResults();
  return multiply_adds;
}

absl::Status QueryBlock::Attend(Tile& tile, TileKernels::State& kernels) {
  const KeyValueFormat& format = task_.tiling->format();
  if (absl::Status scored = ComputeScores(tile); !scored.ok()) return scored;
  rows_.Cap(tile.scores);
  rows_.AddBiases(tile.first, tile.scores);
  const void* weights = Weigh(tile, {.maximum = maximum_, .sum = sum_, .correction = correction_}, kernels);
  if (format.value_dim == 0) return absl::OkStatus();
  if (has_sums_) RescaleRows(correction_, rows_.count(), format.padded_value_dim(), sums_);
  const int64_t first = tile.first - head_.first_key;
  const bool plain = tile.scores.visible == nullptr || head_.packed->ValuesFinite(first, tile.scores.keys);
  absl::Status added =
      plain ? AddValues(tile, weights, head_.packed->Values(first)) : AddFiniteValues(tile, weights, 1, kernels);
  has_sums_ = true;
  return added;
}

// Replaces the tile's scores by weights. Returns them in the product's type.
const void* QueryBlock::Weigh(const Tile& tile, const RowState& state, TileKernels::State& kernels) const {
  UpdateSoftmax(tile.scores, state);
  if (task_.tiling->format().product == ProductType::kFloat32) return tile.scores.scores;
  uint16_t* const rounded = kernels.workspace(tile.worker).weights;
  RoundToBFloat16(tile.scores.scores, int64_t{padded_rows_} * tile.scores.keys, rounded);
  return rounded;
}

absl::Status QueryBlock::AddValues(const Tile& tile, const void* weights, const void* values) {
  return task_.tiling->weighted_sum().Run(tile.worker, {.rows = padded_rows_,
                                                        .keys = tile.scores.keys,
                                                        .accumulate = has_sums_,
                                                        .left = weights,
                                                        .right = values,
                                                        .result = sums_});
}

// With finite values multiplied by `factor`.
absl::Status QueryBlock::AddFiniteValues(const Tile& tile, const void* weights, float factor,
                                         TileKernels::State& kernels) {
  const KeyValueFormat& format = task_.tiling->format();
  const int64_t count = int64_t{tile.scores.keys} * format.padded_value_dim();
  const int64_t bytes = count * ProductBytes(format.product);
  Buffer& copy = kernels.workspace(tile.worker).finite_values;
  if (copy.size() < bytes) copy = kernels.buffers().Acquire(bytes);
  if (copy.size() < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of values"));
  }
  const void* values = head_.packed->Values(tile.first - head_.first_key);
  for (int64_t x = 0; x < count; ++x) {
    const float value = LoadValue(values, x, format.product);
    StoreValue(std::isfinite(value) ? value * factor : 0, copy.data(), x, format.product);
  }
  if (absl::Status added = AddValues(tile, weights, copy.data()); !added.ok()) return added;
  AddOtherValues(tile);
  return absl::OkStatus();
}

void QueryBlock::AddOtherValues(const Tile& tile) {
  const KeyValueFormat& format = task_.tiling->format();
  const int value_dim = format.padded_value_dim();
  const void* values = head_.packed->Values(tile.first - head_.first_key);
  for (int j = 0; j < tile.scores.keys; ++j) {
    for (int d = 0; d < format.value_dim; ++d) {
      const float value = LoadValue(values, int64_t{j} * value_dim + d, format.product);
      if (std::isfinite(value)) continue;
      for (int i = 0; i < rows_.count(); ++i) {
        if (!Sees(tile.scores, i, j)) continue;
        sums_[int64_t{i} * value_dim + d] += tile.scores.scores[int64_t{i} * tile.scores.keys + j] * value;
      }
    }
  }
}

void QueryBlock::WriteResults() {
  const KeyValueFormat& format = task_.tiling->format();
  const BlockResults results = Results();
  for (int i = 0; i < rows_.count(); ++i) {
    const RowTotal total = results.TotalOf(rows_, {.row = i, .sees = sees_[i], .maximum = maximum_[i], .sum = sum_[i]});
    sum_[i] = total.factor;
    results.WriteLogsumexp(rows_, i, total.logsumexp);
    const float* const sums = sees_[i] ? sums_ + int64_t{i} * format.padded_value_dim() : nullptr;
    const bool finite = results.WriteOutput(rows_, i, sums, total.factor);
    overflowed_[i] = !finite && !std::isnan(total.factor);
    if (overflowed_[i]) again_tiles_ = output_tiles_;
  }
  has_sums_ = false;
}

// The maxima stay: none would grow by enough.
absl::StatusOr<int64_t> QueryBlock::AdvanceAgain(TileKernels::State& kernels, int worker) {
  const KeyRange keys = OutputKeys(tile_++ - output_tiles_);
  Tile tile = MakeTile(keys, worker, kernels);
  int64_t multiply_adds = 0;
  if (NoteSeen(tile.scores, sees_.data())) {
    if (absl::Status scored = ComputeScores(tile); !scored.ok()) return scored;
    rows_.Cap(tile.scores);
    rows_.AddBiases(tile.first, tile.scores);
    std::array<float, kMaxTileRows> sum = {};
    const void* weights = Weigh(tile, {.maximum = maximum_, .sum = sum.data(), .correction = correction_}, kernels);
    if (absl::Status added = AddFiniteValues(tile, weights, kOverflowScale, kernels); !added.ok()) return added;
    has_sums_ = true;
    multiply_adds = OutputWork(tile);
  }
  if (tile_ == output_tiles_ + again_tiles_) {
    for (int i = 0; i < rows_.count(); ++i) {
      if (!overflowed_[i]) continue;
      const float* const sums = sums_ + int64_t{i} * task_.tiling->format().padded_value_dim();
      Results().WriteOverflowed(rows_, i, sums, double{sum_[i]} / kOverflowScale);
    }
  }
  return multiply_adds;
}

// WriteResults() left the factors in sum_.
absl::StatusOr<int64_t> QueryBlock::AdvanceWeights(TileKernels::State& kernels, int worker) {
  const int64_t weight_tile = tile_++ - output_tiles_ - again_tiles_;
  const Tile tile = MakeTile(Results().WeightKeys(rows_, weight_tile), worker, kernels);
  if (tile.scores.keys > 0) {
    if (absl::Status scored = ComputeScores(tile); !scored.ok()) return scored;
  }
  Results().WriteWeightTile(rows_, weight_tile, tile.scores, {.maximum = maximum_, .factor = sum_});
  return int64_t{rows_.count()} * kKeyBlock * task_.tiling->format().head_dim;
}

}  // namespace attend::core
