// A key that a row does not see gets weight 0. That is not enough where its value is infinite or NaN, because 0 times
// those is NaN. Packing records which granules of values hold such numbers. Where a tile has both rows that do not see
// all of its keys and such a granule, the product is run on a copy of the values in which they are 0, and what they add
// to the rows that do see them is added one by one. The other rows keep the bits that they have with any finite value.
#include "core/query_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/softmax.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

float LoadValue(const void* values, int64_t index, ProductType type) {
  if (type == ProductType::kFloat32) return static_cast<const float*>(values)[index];
  return BFloat16ToFloat(static_cast<const uint16_t*>(values)[index]);
}

void ClearValue(void* values, int64_t index, ProductType type) {
  if (type == ProductType::kFloat32) {
    static_cast<float*>(values)[index] = 0;
  } else {
    static_cast<uint16_t*>(values)[index] = 0;
  }
}

}  // namespace

// This block's rows times the keys of one key block that some row sees.
struct QueryBlock::Tile {
  int64_t block = 0;  // the key block
  int worker = 0;
  int keys = 0;      // rounded up to a multiple of kKeyGranule; 0 if no row sees any
  bool cut = false;  // some row does not see all of them
  ScoresTile scores;
};

int64_t QueryBlock::Bytes(const Tiling& tiling) {
  const KeyValueFormat& format = tiling.format;
  const int64_t rows = tiling.query_block;
  return Align(rows * format.padded_head_dim() * ProductBytes(format.product)) +
         Align(rows * format.padded_value_dim() * static_cast<int64_t>(sizeof(float))) +
         3 * Align(rows * static_cast<int64_t>(sizeof(float))) + Align(rows * static_cast<int64_t>(sizeof(int64_t)));
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
  const KeyValueFormat& format = task_.tiling->format;
  const int64_t rows = task_.tiling->query_block;
  std::byte* next = buffer_.data();
  const auto take = [&next](int64_t bytes) {
    std::byte* const part = next;
    next += Align(bytes);
    return static_cast<void*>(part);
  };
  queries_ = take(rows * format.padded_head_dim() * ProductBytes(format.product));
  sums_ = static_cast<float*>(take(rows * format.padded_value_dim() * static_cast<int64_t>(sizeof(float))));
  maximum_ = static_cast<float*>(take(rows * static_cast<int64_t>(sizeof(float))));
  sum_ = static_cast<float*>(take(rows * static_cast<int64_t>(sizeof(float))));
  correction_ = static_cast<float*>(take(rows * static_cast<int64_t>(sizeof(float))));
  visible_ = static_cast<int64_t*>(take(rows * static_cast<int64_t>(sizeof(int64_t))));
}

int64_t QueryBlock::QueryOf(int row) const {
  return (place_.block * task_.tiling->query_block + row) / task_.problem->group_size();
}

int64_t QueryBlock::QueryHeadOf(int row) const {
  const int64_t group = task_.problem->group_size();
  const int64_t kv_head = place_.head % task_.problem->shape().kv_heads;
  return kv_head * group + (place_.block * task_.tiling->query_block + row) % group;
}

void QueryBlock::Begin(const Place& place, const PackedKeyValue* packed) {
  const AttentionProblem& problem = *task_.problem;
  const Tiling& tiling = *task_.tiling;
  const KeyValueFormat& format = tiling.format;
  place_ = place;
  packed_ = packed;
  rows_ = static_cast<int>(std::min(tiling.query_block, tiling.rows - place.block * tiling.query_block));

  const int64_t b = place.head / problem.shape().kv_heads;
  const Strides strides = problem.QueryStrides();
  const int64_t row_bytes = format.padded_head_dim() * ProductBytes(format.product);
  for (int i = 0; i < rows_; ++i) {
    const int64_t query = QueryOf(i);
    const int64_t offset = b * strides.batch + QueryHeadOf(i) * strides.head + query * strides.row;
    const SourceRows row = {
        .first = static_cast<const std::byte*>(task_.inputs.query) + offset * ElementBytes(format.type),
        .stride = strides.row,
        .count = 1,
        .dim = format.head_dim,
        .type = format.type};
    PackRows(row, format.padded_head_dim(), 1, format.product, static_cast<std::byte*>(queries_) + i * row_bytes);
    visible_[i] = problem.VisibleKeys(b, query).end;
  }
  std::fill_n(maximum_, rows_, -kInfinity);
  std::fill_n(sum_, rows_, 0.0f);

  tile_ = 0;
  score_tiles_ = std::max<int64_t>(1, (visible_[rows_ - 1] + kKeyBlock - 1) / kKeyBlock);
  weight_tiles_ = problem.results().weights ? (problem.shape().key_length + kKeyBlock - 1) / kKeyBlock : 0;
  padded_rows_ = 0;
}

QueryBlock::Tile QueryBlock::MakeTile(int64_t block, int worker, TileWorkspace& workspace, int* visible) const {
  const int64_t first = block * kKeyBlock;
  for (int i = 0; i < rows_; ++i) {
    visible[i] = static_cast<int>(std::clamp<int64_t>(visible_[i] - first, 0, kKeyBlock));
  }
  const int most = visible[rows_ - 1];
  const int keys = (most + kKeyGranule - 1) / kKeyGranule * kKeyGranule;
  return {.block = block,
          .worker = worker,
          .keys = keys,
          .cut = visible[0] < keys,
          .scores = {.scores = workspace.scores,
                     .visible = visible,
                     .rows = rows_,
                     .keys = keys,
                     .scale = task_.problem->scale()}};
}

absl::Status QueryBlock::ComputeScores(const Tile& tile) const {
  return task_.tiling->scores->Run(tile.worker, {.rows = padded_rows_,
                                                 .keys = tile.keys,
                                                 .left = queries_,
                                                 .right = packed_->Keys(tile.block),
                                                 .result = tile.scores.scores});
}

absl::StatusOr<int64_t> QueryBlock::Advance(TileKernels::State& kernels, int worker) {
  const KeyValueFormat& format = task_.tiling->format;
  if (padded_rows_ == 0) {
    padded_rows_ = kernels.matmul().PaddedRows(rows_);
    const int64_t row_bytes = format.padded_head_dim() * ProductBytes(format.product);
    std::memset(static_cast<std::byte*>(queries_) + rows_ * row_bytes, 0, (padded_rows_ - rows_) * row_bytes);
  }
  const int64_t tile_index = tile_++;
  if (tile_index >= score_tiles_) {
    const absl::Status written = WriteWeightsTile(tile_index - score_tiles_, kernels, worker);
    if (!written.ok()) return written;
    return int64_t{rows_} * kKeyBlock * format.head_dim;
  }
  std::array<int, kMaxTileRows> visible;
  const Tile tile = MakeTile(tile_index, worker, kernels.workspace(worker), visible.data());
  if (tile.keys > 0) {
    const absl::Status attended = Attend(tile, kernels);
    if (!attended.ok()) return attended;
  }
  if (tile_ == score_tiles_) WriteResults();
  return int64_t{rows_} * tile.keys * (format.head_dim + format.value_dim);
}

absl::Status QueryBlock::Attend(const Tile& tile, TileKernels::State& kernels) {
  if (absl::Status scored = ComputeScores(tile); !scored.ok()) return scored;
  UpdateSoftmax(tile.scores, {.maximum = maximum_, .sum = sum_, .correction = correction_});
  if (tile.block > 0) RescaleRows(correction_, rows_, task_.tiling->format.padded_value_dim(), sums_);
  const void* weights = tile.scores.scores;
  if (task_.tiling->format.product == ProductType::kBFloat16) {
    uint16_t* const rounded = kernels.workspace(tile.worker).weights;
    RoundToBFloat16(tile.scores.scores, int64_t{padded_rows_} * tile.keys, rounded);
    weights = rounded;
  }
  if (!tile.cut || packed_->ValuesFinite(tile.block, tile.keys))
    return AddValues(tile, weights, packed_->Values(tile.block));
  return AddFiniteValues(tile, weights, kernels);
}

absl::Status QueryBlock::AddValues(const Tile& tile, const void* weights, const void* values) {
  return task_.tiling->weighted_sum->Run(tile.worker, {.rows = padded_rows_,
                                                       .keys = tile.keys,
                                                       .accumulate = tile.block > 0,
                                                       .left = weights,
                                                       .right = values,
                                                       .result = sums_});
}

absl::Status QueryBlock::AddFiniteValues(const Tile& tile, const void* weights, TileKernels::State& kernels) {
  const KeyValueFormat& format = task_.tiling->format;
  const int64_t count = int64_t{tile.keys} * format.padded_value_dim();
  const int64_t bytes = count * ProductBytes(format.product);
  Buffer& copy = kernels.workspace(tile.worker).finite_values;
  if (copy.size() < bytes) copy = kernels.buffers().Acquire(bytes);
  if (copy.size() < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of values"));
  }
  std::memcpy(copy.data(), packed_->Values(tile.block), bytes);
  for (int64_t x = 0; x < count; ++x) {
    if (!std::isfinite(LoadValue(copy.data(), x, format.product))) ClearValue(copy.data(), x, format.product);
  }
  if (absl::Status added = AddValues(tile, weights, copy.data()); !added.ok()) return added;
  AddOtherValues(tile);
  return absl::OkStatus();
}

void QueryBlock::AddOtherValues(const Tile& tile) {
  const KeyValueFormat& format = task_.tiling->format;
  const int value_dim = format.padded_value_dim();
  const void* values = packed_->Values(tile.block);
  for (int j = 0; j < tile.keys; ++j) {
    for (int d = 0; d < format.value_dim; ++d) {
      const float value = LoadValue(values, int64_t{j} * value_dim + d, format.product);
      if (std::isfinite(value)) continue;
      // Rows see more keys from one to the next.
      for (int i = rows_ - 1; i >= 0 && tile.scores.visible[i] > j; --i) {
        sums_[int64_t{i} * value_dim + d] += tile.scores.scores[int64_t{i} * tile.keys + j] * value;
      }
    }
  }
}

void QueryBlock::WriteResults() {
  const AttentionProblem& problem = *task_.problem;
  const AttentionShape& shape = problem.shape();
  const KeyValueFormat& format = task_.tiling->format;
  const int64_t b = place_.head / shape.kv_heads;
  const Strides strides = problem.OutputStrides();
  for (int i = 0; i < rows_; ++i) {
    const int64_t head = QueryHeadOf(i);
    const int64_t query = QueryOf(i);
    void* const output = static_cast<std::byte*>(task_.results.output) +
                         (b * strides.batch + head * strides.head + query * strides.row) * ElementBytes(format.type);
    float logsumexp = -kInfinity;
    if (visible_[i] == 0) {
      std::memset(output, 0, format.value_dim * ElementBytes(format.type));
    } else {
      if (maximum_[i] == -kInfinity || std::isnan(sum_[i])) sum_[i] = kNan;
      logsumexp = static_cast<float>(maximum_[i] + std::log(static_cast<double>(sum_[i])));
      sum_[i] = 1 / sum_[i];
      WriteScaledRow(sums_ + int64_t{i} * format.padded_value_dim(), format.value_dim, sum_[i], format.type, output);
    }
    if (problem.results().logsumexp) {
      task_.results.logsumexp[(b * shape.query_heads + head) * shape.query_length + query] =
          std::isnan(logsumexp) ? kNan : logsumexp;
    }
  }
}

// WriteResults() left the reciprocals of the sums.
absl::Status QueryBlock::WriteWeightsTile(int64_t block, TileKernels::State& kernels, int worker) {
  const AttentionShape& shape = task_.problem->shape();
  std::array<int, kMaxTileRows> visible;
  const Tile tile = MakeTile(block, worker, kernels.workspace(worker), visible.data());
  if (tile.keys > 0) {
    if (absl::Status scored = ComputeScores(tile); !scored.ok()) return scored;
  }
  const int64_t first = block * kKeyBlock;
  const int64_t b = place_.head / shape.kv_heads;
  std::array<float*, kMaxTileRows> destinations;
  for (int i = 0; i < rows_; ++i) {
    const int64_t row = (b * shape.query_heads + QueryHeadOf(i)) * shape.query_length + QueryOf(i);
    destinations[i] = task_.results.weights + row * shape.key_length + first;
  }
  const int width = static_cast<int>(std::min<int64_t>(shape.key_length - first, kKeyBlock));
  WriteWeights(tile.scores, maximum_, sum_, width, destinations.data());
  return absl::OkStatus();
}

}  // namespace attend::core
