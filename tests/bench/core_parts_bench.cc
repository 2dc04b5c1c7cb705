// The parts of a tile, each by itself: where a change of the kernel gains or loses. Google Benchmark's own flags; all
// run on one thread and on data that the caches hold, as within a tile.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "core/element_type.h"
#include "core/onednn_matmul.h"
#include "core/packing.h"
#include "core/softmax.h"

namespace attend::bench {
namespace {

using core::ElementType;
using core::ProductType;

constexpr int kRows = core::kMaxTileRows;
constexpr int kKeys = core::kKeyBlock;

std::vector<float> NormalNumbers(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// `count` numbers of `type`.
std::vector<uint8_t> Elements(ElementType type, size_t count) {
  const std::vector<float> numbers = NormalNumbers(count);
  if (type == ElementType::kFloat32) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
    return {bytes, bytes + 4 * count};
  }
  std::vector<uint8_t> halves(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half =
        type == ElementType::kFloat16 ? core::FloatToFloat16(numbers[i]) : core::FloatToBFloat16(numbers[i]);
    halves[2 * i] = static_cast<uint8_t>(half & 0xff);
    halves[2 * i + 1] = static_cast<uint8_t>(half >> 8);
  }
  return halves;
}

// What its products read of a type where the processor has no products of 16 bits; bf16 is kept where it has.
ProductType ProductOf(ElementType type) {
  return type == ElementType::kBFloat16 ? ProductType::kBFloat16 : ProductType::kFloat32;
}

struct Rows {
  Rows(ElementType type, int64_t count, int dim)
      : elements(Elements(type, static_cast<size_t>(count * dim))),
        rows{.first = elements.data(), .stride = dim, .count = count, .dim = dim, .type = type} {}
  std::vector<uint8_t> elements;
  core::SourceRows rows;
};

void CountBytes(benchmark::State& state, const Rows& rows) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(rows.elements.size()));
}

// A block of keys into one panel, transposed and converted.
void PackKeys(benchmark::State& state, ElementType type) {
  const int dim = static_cast<int>(state.range(0));
  const Rows keys(type, core::kKeyGranule, dim);
  const core::KeyPanels panels = {.keys = core::kKeyGranule, .row_stride = core::kKeyGranule};
  std::vector<float> panel(static_cast<size_t>(dim) * core::kKeyGranule);
  for (auto _ : state) {
    core::PackKeyPanel(keys.rows, dim, core::kKeyGranule, panels, ProductOf(type), panel.data());
    benchmark::DoNotOptimize(panel.data());
  }
  CountBytes(state, keys);
}

// A block of values, converted.
void PackValues(benchmark::State& state, ElementType type) {
  const int dim = static_cast<int>(state.range(0));
  const Rows values(type, kKeys, dim);
  std::vector<float> packed(static_cast<size_t>(dim) * kKeys);
  for (auto _ : state) {
    core::PackRows(values.rows, dim, kKeys, ProductOf(type), packed.data());
    benchmark::DoNotOptimize(packed.data());
  }
  CountBytes(state, values);
}

// The scan for NaN and infinity among the values of one key block: what the exact path for them costs all others.
void ScanValues(benchmark::State& state, ElementType type) {
  const Rows values(type, kKeys, static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(core::AllFinite(values.rows));
  CountBytes(state, values);
}

// One tile of scores; the argument says whether every key is visible or a mask says which.
void Softmax(benchmark::State& state) {
  constexpr float kScale = 0.125F;
  std::vector<float> scores = NormalNumbers(size_t{kRows} * kKeys);
  const std::vector<uint64_t> visible(size_t{kRows} * core::kBlockGranules, 0x5555'5555'ffff'ffffU);
  std::vector<float> maximum(kRows), sum(kRows), correction(kRows);
  const core::RowState rows = {.maximum = maximum.data(), .sum = sum.data(), .correction = correction.data()};
  const core::ScoresTile tile = {.scores = scores.data(),
                                 .visible = state.range(0) != 0 ? visible.data() : nullptr,
                                 .rows = kRows,
                                 .keys = kKeys,
                                 .scale = kScale};
  for (auto _ : state) {
    std::fill(maximum.begin(), maximum.end(), -std::numeric_limits<float>::infinity());
    std::fill(sum.begin(), sum.end(), 0.0F);
    core::UpdateSoftmax(tile, rows);  // the next round's scores are these weights: numbers from 0 to 1
    benchmark::DoNotOptimize(scores.data());
  }
  state.SetItemsProcessed(state.iterations() * kRows * kKeys);
}

// Weights on their way to products of bf16.
void RoundWeights(benchmark::State& state) {
  const std::vector<float> weights = NormalNumbers(size_t{kRows} * kKeys);
  std::vector<uint16_t> rounded(weights.size());
  for (auto _ : state) {
    core::RoundToBFloat16(weights.data(), static_cast<int64_t>(weights.size()), rounded.data());
    benchmark::DoNotOptimize(rounded.data());
  }
  state.SetItemsProcessed(state.iterations() * kRows * kKeys);
}

// One of the two products of a tile, by the back end.
void Product(benchmark::State& state, ProductType type, bool is_scores) {
  omp_set_num_threads(1);
  const int dim = static_cast<int>(state.range(0));
  const auto matmul = core::CreateOnednnMatmul(/*workers=*/1);
  if (!matmul.ok()) return state.SkipWithError(matmul.status().ToString().c_str());
  const auto product = is_scores ? (*matmul)->Scores(type, dim) : (*matmul)->WeightedSum(type, dim);
  if (!product.ok()) return state.SkipWithError(product.status().ToString().c_str());
  const int left_columns = is_scores ? dim : kKeys, result_columns = is_scores ? kKeys : dim;
  const ElementType elements = type == ProductType::kBFloat16 ? ElementType::kBFloat16 : ElementType::kFloat32;
  const auto left = Elements(elements, static_cast<size_t>(kRows) * left_columns);
  const auto right = Elements(elements, static_cast<size_t>(2) * kKeys * dim);  // panels may be padded
  std::vector<float> result(static_cast<size_t>(kRows) * result_columns);
  for (auto _ : state) {
    const absl::Status status = (*product)->Run(/*worker=*/0, {.rows = kRows,
                                                               .keys = kKeys,
                                                               .accumulate = !is_scores,
                                                               .left = left.data(),
                                                               .right = right.data(),
                                                               .result = result.data()});
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    benchmark::DoNotOptimize(result.data());
  }
  state.SetItemsProcessed(state.iterations() * 2 * kRows * kKeys * dim);
}

BENCHMARK_CAPTURE(PackKeys, f32, ElementType::kFloat32)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(PackKeys, bf16, ElementType::kBFloat16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(PackKeys, f16, ElementType::kFloat16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(PackValues, bf16, ElementType::kBFloat16)->Arg(128);
BENCHMARK_CAPTURE(PackValues, f16, ElementType::kFloat16)->Arg(128);
BENCHMARK_CAPTURE(ScanValues, f32, ElementType::kFloat32)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(ScanValues, bf16, ElementType::kBFloat16)->Arg(128);
BENCHMARK_CAPTURE(ScanValues, f16, ElementType::kFloat16)->Arg(128);
BENCHMARK(Softmax)->ArgName("masked")->Arg(0)->Arg(1);
BENCHMARK(RoundWeights);
BENCHMARK_CAPTURE(Product, scores_f32, ProductType::kFloat32, true)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(Product, scores_bf16, ProductType::kBFloat16, true)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(Product, sum_f32, ProductType::kFloat32, false)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(Product, sum_bf16, ProductType::kBFloat16, false)->Arg(64)->Arg(128);

}  // namespace
}  // namespace attend::bench
