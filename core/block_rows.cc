#include "core/block_rows.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/score_transform.h"
#include "core/visibility.h"

namespace attend::core {
namespace {

// a + b, or the number of int64 that is nearest to it.
int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

}  // namespace

void BlockRows::Begin(const AttentionProblem& problem, const AttentionInputs& inputs, const Place& place) {
  problem_ = &problem;
  inputs_ = inputs;
  place_ = place;
  const int64_t group = problem.group_size();
  // Neither end decreases from row to row: where the first and the last see the same keys, all do.
  const KeyRange first = problem.VisibleKeys(place.batch, place.first / group);
  const KeyRange last = problem.VisibleKeys(place.batch, (place.first + place.count - 1) / group);
  const bool alike = first.begin == last.begin && first.end == last.end;
  int64_t query = place.first / group;
  int64_t member = place.first % group;  // of the group
  for (int i = 0; i < place.count; ++i) {
    rows_[i].query = query;
    rows_[i].head = place.kv_head * group + member;
    rows_[i].keys = alike ? first : problem.VisibleKeys(place.batch, query);
    if (++member == group) member = 0, ++query;
  }
}

// Neither end decreases from row to row.
KeyRange BlockRows::keys() const {
  const int64_t begin = rows_[0].keys.begin;
  const int64_t end = rows_[place_.count - 1].keys.end;
  if (begin >= end) return {.begin = end, .end = end};
  return {.begin = begin / kKeyGranule * kKeyGranule, .end = end};
}

const uint64_t* BlockRows::See(int64_t first, int keys, uint64_t* words) const {
  const AttentionOptions& options = problem_->options();
  const bool excluding = options.mask.has_value() || options.bias.has_value();
  const bool all = rows_[place_.count - 1].keys.begin <= first && rows_[0].keys.end >= first + keys;
  if (all && !excluding) return nullptr;
  for (int i = 0; i < place_.count; ++i) {
    const auto in_tile = [&](int64_t key) { return static_cast<int>(std::clamp<int64_t>(key - first, 0, keys)); };
    SeeRange(in_tile(rows_[i].keys.begin), in_tile(rows_[i].keys.end), words + i * kBlockGranules);
  }
  Pointers rows;
  if (options.mask.has_value()) {
    ExcludeFalse(TensorRows(inputs_.mask, 1, problem_->MaskStrides(), first, rows), place_.count, words);
  }
  if (options.bias.has_value()) ExcludeInfinite(BiasRows(first, rows), place_.count, words);
  return words;
}

ScoresTile BlockRows::TileOf(const KeyRange& keys, float* scores, uint64_t* visible) const {
  const int count = static_cast<int>((keys.count() + kKeyGranule - 1) / kKeyGranule * kKeyGranule);
  return {.scores = scores,
          .visible = See(keys.begin, count, visible),
          .rows = place_.count,
          .keys = count,
          .scale = problem_->scale()};
}

void BlockRows::Cap(ScoresTile& tile) const {
  if (problem_->options().softcap > 0) CapScores(problem_->options().softcap, tile);
}

void BlockRows::AddBiases(int64_t first, ScoresTile& tile) const {
  Pointers rows;
  if (problem_->options().bias.has_value()) AddBias(BiasRows(first, rows), tile);
  if (!problem_->options().alibi_slopes.empty()) AddDistancesFrom(first, tile);
}

TileTensor BlockRows::TensorRows(const void* elements, int64_t element_bytes, const BroadcastStrides& strides,
                                 int64_t first, Pointers& rows) const {
  for (int i = 0; i < place_.count; ++i) {
    const int64_t index = place_.batch * strides.batch + rows_[i].head * strides.head + rows_[i].query * strides.query +
                          first * strides.key;
    rows[i] = static_cast<const std::byte*>(elements) + index * element_bytes;
  }
  const int64_t keys = problem_->shape().key_length - first;
  return {.rows = rows.data(),
          .type = ElementType::kFloat32,
          .per_key = strides.key != 0,
          .keys = static_cast<int>(std::min<int64_t>(keys, kKeyBlock))};
}

TileTensor BlockRows::BiasRows(int64_t first, Pointers& rows) const {
  const ElementType type = problem_->options().bias->type;
  TileTensor tensor = TensorRows(inputs_.bias, ElementBytes(type), problem_->BiasStrides(), first, rows);
  tensor.type = type;
  return tensor;
}

void BlockRows::AddDistancesFrom(int64_t first, ScoresTile& tile) const {
  std::array<float, kMaxTileRows> slopes;
  std::array<int64_t, kMaxTileRows> positions;
  const int64_t offset = problem_->QueryOffset(place_.batch);
  for (int i = 0; i < place_.count; ++i) {
    slopes[i] = problem_->options().alibi_slopes[rows_[i].head];
    positions[i] = SaturatingAdd(SaturatingAdd(offset, rows_[i].query), -first);
  }
  AddDistances({.slopes = slopes.data(), .positions = positions.data()}, tile);
}

bool NoteSeen(const ScoresTile& tile, bool* sees) {
  if (tile.visible == nullptr) {
    std::fill_n(sees, tile.rows, true);
    return true;
  }
  bool any = false;
  for (int i = 0; i < tile.rows; ++i) {
    const uint64_t* const words = tile.visible + i * kBlockGranules;
    const bool seen = std::any_of(words, words + kBlockGranules, [](uint64_t word) { return word != 0; });
    sees[i] |= seen;
    any |= seen;
  }
  return any;
}

}  // namespace attend::core
