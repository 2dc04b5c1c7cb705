// The products against plain loops, and the promise that everything above relies on: a row's bits do not depend on how
// many rows and keys stand beside it. oneDNN itself promises none of this.
#include "core/onednn_matmul.h"

#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/element_type.h"
#include "core/matmul_emulation.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr int kDims[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 256, 576, 1024};

std::vector<float> Random(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

// Keys [keys, head_dim] in panels, keys beyond them NaN: nobody may read those.
std::vector<float> Pack(const std::vector<float>& keys, int count, int head_dim, const KeyPanels& panels) {
  std::vector<float> packed(size_t{kKeyBlock} / panels.keys * head_dim * panels.row_stride, std::nanf(""));
  for (int j = 0; j < count; ++j) {
    for (int d = 0; d < head_dim; ++d) {
      packed[(int64_t{j} / panels.keys * head_dim + d) * panels.row_stride + j % panels.keys] = keys[j * head_dim + d];
    }
  }
  return packed;
}

std::set<int> AllPaddedRows(const Matmul& matmul) {
  std::set<int> rows;
  for (int i = 1; i <= kMaxTileRows; ++i) rows.insert(matmul.PaddedRows(i));
  return rows;
}

// What a product is made of: `dim` is head_dim or value_dim.
struct TileExtent {
  int dim, rows = kMaxTileRows, keys = kKeyBlock;
};

// The first keys of `weights`, [kMaxTileRows, kKeyBlock], in rows of `row_keys`; each row sees `keys` or up to 63
// fewer.
std::vector<float> MaskedWeights(const std::vector<float>& weights, int keys, int row_keys) {
  std::vector<float> masked(kMaxTileRows * row_keys, 0);
  for (int i = 0; i < kMaxTileRows; ++i) {
    for (int j = 0; j < keys - i % 64; ++j) masked[i * row_keys + j] = std::abs(weights[i * kKeyBlock + j]);
  }
  return masked;
}

// Whether each row of `some`, [rows, keys], has the bits of the same row of `all`, [rows, kKeyBlock].
testing::AssertionResult SameBitsAsIn(const std::vector<float>& all, const std::vector<float>& some, int keys) {
  const int rows = static_cast<int>(some.size()) / keys;
  for (int64_t i = 0; i < rows; ++i) {
    if (std::memcmp(&some[i * keys], &all[i * kKeyBlock], keys * sizeof(float)) != 0) {
      return testing::AssertionFailure() << "row " << i;
    }
  }
  return testing::AssertionSuccess();
}

class OnednnMatmulTest : public testing::Test {
 protected:
  void SetUp() override {
    omp_set_num_threads(1);
    auto matmul = CreateOnednnMatmul(4);
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    matmul_ = *std::move(matmul);
  }

  std::vector<float> Scores(const TileExtent& tile, const std::vector<float>& query, const std::vector<float>& key,
                            int worker = 0) {
    const auto panels = matmul_->Panels(ProductType::kFloat32, tile.dim);
    const auto product = matmul_->Scores(ProductType::kFloat32, tile.dim);
    EXPECT_TRUE(panels.ok() && product.ok());
    const auto packed = Pack(key, tile.keys, tile.dim, *panels);
    std::vector<float> result(int64_t{tile.rows} * tile.keys, -1);
    const auto status = (*product)->Run(worker, {.rows = tile.rows,
                                                 .keys = tile.keys,
                                                 .accumulate = false,
                                                 .left = query.data(),
                                                 .right = packed.data(),
                                                 .result = result.data()});
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }

  // Of keys as they are.
  std::vector<float> ScoresOfRows(const TileExtent& tile, const std::vector<float>& query,
                                  const std::vector<float>& key) {
    const auto product = matmul_->Scores(ProductType::kFloat32, tile.dim);
    EXPECT_TRUE(product.ok());
    std::vector<float> result(int64_t{tile.rows} * tile.keys, -1);
    const auto status = (*product)->Run(0, {.rows = tile.rows,
                                            .keys = tile.keys,
                                            .key_rows = true,
                                            .left = query.data(),
                                            .right = key.data(),
                                            .result = result.data()});
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }

  std::vector<float> WeightedSum(const TileExtent& tile, bool accumulate, const std::vector<float>& weights,
                                 const std::vector<float>& value) {
    const auto product = matmul_->WeightedSum(ProductType::kFloat32, tile.dim);
    EXPECT_TRUE(product.ok());
    std::vector<float> result(int64_t{tile.rows} * tile.dim, accumulate ? 0.25f : std::nanf(""));
    const auto status = (*product)->Run(0, {.rows = tile.rows,
                                            .keys = tile.keys,
                                            .accumulate = accumulate,
                                            .left = weights.data(),
                                            .right = value.data(),
                                            .result = result.data()});
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }

  // Whether any number of rows gives the bits of the first ones of `all`, [kMaxTileRows, dim].
  testing::AssertionResult SumsOfFewerRowsAreIn(const std::vector<float>& all, const TileExtent& tile, bool accumulate,
                                                const std::vector<float>& weights, const std::vector<float>& value) {
    for (const int rows : AllPaddedRows(*matmul_)) {
      const auto some = WeightedSum({tile.dim, rows, tile.keys}, accumulate, weights, value);
      if (std::memcmp(some.data(), all.data(), some.size() * sizeof(float)) != 0) {
        return testing::AssertionFailure() << rows << " rows";
      }
    }
    return testing::AssertionSuccess();
  }

  std::unique_ptr<Matmul> matmul_;
};

TEST_F(OnednnMatmulTest, PaddedRowsAreEnoughAndStable) {
  for (int rows = 1; rows <= kMaxTileRows; ++rows) {
    const int padded = matmul_->PaddedRows(rows);
    EXPECT_GE(padded, rows);
    EXPECT_LE(padded, kMaxTileRows);
    EXPECT_LT(padded, rows + 32);
    EXPECT_EQ(matmul_->PaddedRows(padded), padded);
  }
}

TEST_F(OnednnMatmulTest, ScoresAreTheDotProducts) {
  for (const int head_dim : kDims) {
    const auto query = Random(kMaxTileRows * head_dim, 1);
    const auto key = Random(kKeyBlock * head_dim, 2);
    const auto scores = Scores({.dim = head_dim}, query, key);
    for (int i = 0; i < kMaxTileRows; i += 5) {
      for (int j = 0; j < kKeyBlock; ++j) {
        double dot = 0;
        for (int d = 0; d < head_dim; ++d) dot += double{query[i * head_dim + d]} * key[j * head_dim + d];
        ASSERT_NEAR(scores[i * kKeyBlock + j], dot, 3e-6 * head_dim) << "head_dim " << head_dim << " " << i << " " << j;
      }
    }
  }
}

TEST_F(OnednnMatmulTest, WeightedSumsAreWrittenOrAdded) {
  for (const int value_dim : {16, 80, 128, 512}) {
    const auto weights = Random(kMaxTileRows * kKeyBlock, 3);
    const auto value = Random(kKeyBlock * value_dim, 4);
    const auto written = WeightedSum({.dim = value_dim}, false, weights, value);
    const auto added = WeightedSum({.dim = value_dim}, true, weights, value);
    for (int i = 0; i < kMaxTileRows; i += 7) {
      for (int d = 0; d < value_dim; ++d) {
        double sum = 0;
        for (int j = 0; j < kKeyBlock; ++j) sum += double{weights[i * kKeyBlock + j]} * value[j * value_dim + d];
        ASSERT_NEAR(written[i * value_dim + d], sum, 2e-4) << value_dim;
        ASSERT_NEAR(added[i * value_dim + d], sum + 0.25, 2e-4) << value_dim;
      }
    }
  }
}

TEST_F(OnednnMatmulTest, BitsOfScoresDependOnNoOtherRowOrKey) {
  for (const int head_dim : kDims) {
    const auto query = Random(kMaxTileRows * head_dim, 5);
    const auto key = Random(kKeyBlock * head_dim, 6);
    const auto all = Scores({.dim = head_dim}, query, key);
    for (const int rows : AllPaddedRows(*matmul_)) {
      for (int keys = kKeyGranule; keys <= kKeyBlock; keys += kKeyGranule) {
        const auto some = Scores({head_dim, rows, keys}, query, key);
        ASSERT_TRUE(SameBitsAsIn(all, some, keys)) << "head_dim " << head_dim << " rows " << rows << " keys " << keys;
      }
    }
  }
}

TEST_F(OnednnMatmulTest, KeysAsTheyAreGiveTheBitsOfPanels) {
  for (const int head_dim : kDims) {
    if (!matmul_->Panels(ProductType::kFloat32, head_dim)->or_rows) GTEST_SKIP() << "it wants panels";
    const auto query = Random(kMaxTileRows * head_dim, 18);
    const auto key = Random(kKeyBlock * head_dim, 19);
    for (const int rows : AllPaddedRows(*matmul_)) {
      for (int keys = kKeyGranule; keys <= kKeyBlock; keys += kKeyGranule) {
        const TileExtent tile = {head_dim, rows, keys};
        ASSERT_EQ(ScoresOfRows(tile, query, key), Scores(tile, query, key)) << head_dim << " " << rows << " " << keys;
      }
    }
  }
}

// Keys of weight 0 that are trimmed away, and other rows, change no bit.
TEST_F(OnednnMatmulTest, BitsOfWeightedSumsDependOnNoOtherRowOrTrimmedKey) {
  for (const int value_dim : kDims) {
    const auto value = Random(kKeyBlock * value_dim, 7);
    const auto random = Random(kMaxTileRows * kKeyBlock, 8);
    for (int keys = kKeyGranule; keys <= kKeyBlock; keys += kKeyGranule) {
      const auto wide = MaskedWeights(random, keys, kKeyBlock);
      const auto trimmed = MaskedWeights(random, keys, keys);
      for (const bool accumulate : {false, true}) {
        const auto all = WeightedSum({.dim = value_dim}, accumulate, wide, value);
        EXPECT_TRUE(SumsOfFewerRowsAreIn(all, {.dim = value_dim, .keys = keys}, accumulate, trimmed, value))
            << "value_dim " << value_dim << " keys " << keys << " accumulate " << accumulate;
      }
    }
  }
}

TEST_F(OnednnMatmulTest, WorkersMayMakeAndRunTheSamePrimitiveAtOnce) {
  const int head_dim = 64;
  const auto query = Random(kMaxTileRows * head_dim, 9);
  const auto key = Random(kKeyBlock * head_dim, 10);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      omp_set_num_threads(1);
      for (int i = 0; i < 20; ++i)
        results[worker] = Scores({.dim = head_dim, .rows = 128, .keys = 256}, query, key, worker);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int worker = 1; worker < 4; ++worker) EXPECT_EQ(results[worker], results[0]);
}

TEST_F(OnednnMatmulTest, KeepsTheProductsLastAskedForAndNoMore) {
  const auto of = [&](int dim) { return *matmul_->Scores(ProductType::kFloat32, dim); };
  const std::weak_ptr<const TileProduct> used = of(16), unused = of(32);
  for (int dim = 48; dim <= 1024; dim += 16) {
    of(dim);
    EXPECT_EQ(of(16), used.lock()) << dim;
  }
  EXPECT_FALSE(used.expired());
  EXPECT_TRUE(unused.expired());
}

TEST_F(OnednnMatmulTest, ProductsOutliveTheBackEnd) {
  const auto query = Random(16 * 16, 11);
  const auto value = Random(64 * 16, 12);
  const auto weights = Random(16 * 64, 13);
  const auto product = matmul_->WeightedSum(ProductType::kFloat32, 16);
  ASSERT_TRUE(product.ok());
  matmul_.reset();
  std::vector<float> result(16 * 16);
  EXPECT_TRUE((*product)
                  ->Run(0, {.rows = 16,
                            .keys = 64,
                            .accumulate = false,
                            .left = weights.data(),
                            .right = value.data(),
                            .result = result.data()})
                  .ok());
  EXPECT_NE(result, std::vector<float>(16 * 16));
}

// Emulated bf16 products are the f32 products of the expanded operands, bit for bit.
TEST_F(OnednnMatmulTest, EmulatedBFloat16IsExact) {
  const int dim = 48, rows = 48, keys = 192;
  const auto round = [](const std::vector<float>& from, std::vector<float>& floats) {
    std::vector<uint16_t> bits(from.size());
    floats.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      bits[i] = FloatToBFloat16(from[i]);
      floats[i] = BFloat16ToFloat(bits[i]);
    }
    return bits;
  };
  std::vector<float> query, key, weights, value;
  const auto query_bits = round(Random(rows * dim, 14), query);
  round(Random(keys * dim, 15), key);
  const auto weights_bits = round(Random(rows * keys, 16), weights);
  const auto value_bits = round(Random(keys * dim, 17), value);
  const auto scores = Scores({dim, rows, keys}, query, key);
  const auto sums = WeightedSum({dim, rows, keys}, false, weights, value);

  const auto emulated = EmulateBFloat16(std::move(matmul_), 4);
  const auto panels = emulated->Panels(ProductType::kBFloat16, dim);
  const auto scores_product = emulated->Scores(ProductType::kBFloat16, dim);
  const auto sums_product = emulated->WeightedSum(ProductType::kBFloat16, dim);
  ASSERT_TRUE(panels.ok() && scores_product.ok() && sums_product.ok());
  std::vector<float> packed_floats = Pack(key, keys, dim, *panels);
  std::vector<float> unused;
  const auto key_bits = round(packed_floats, unused);
  std::vector<float> result(rows * keys);
  ASSERT_TRUE((*scores_product)
                  ->Run(0, {.rows = rows,
                            .keys = keys,
                            .accumulate = false,
                            .left = query_bits.data(),
                            .right = key_bits.data(),
                            .result = result.data()})
                  .ok());
  EXPECT_EQ(result, scores);
  result.assign(rows * dim, -1);
  ASSERT_TRUE((*sums_product)
                  ->Run(0, {.rows = rows,
                            .keys = keys,
                            .accumulate = false,
                            .left = weights_bits.data(),
                            .right = value_bits.data(),
                            .result = result.data()})
                  .ok());
  EXPECT_EQ(result, sums);
}

TEST(OnednnVersionTest, IsThreeNumbers) {
  int major = 0, minor = 0, patch = 0;
  EXPECT_EQ(std::sscanf(OnednnVersion().c_str(), "%d.%d.%d", &major, &minor, &patch), 3) << OnednnVersion();
  EXPECT_GE(major, 2);
}

}  // namespace
}  // namespace attend::core
