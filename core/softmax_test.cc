// Every property on every instruction set that this processor and this build have.
#include "core/softmax.h"

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/matmul.h"
#include "core/visibility.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

struct AlignedTile {
  alignas(64) float scores[2 * kKeyBlock];
};

// One row and its state. The scores lie in a tile of two rows, the other of which must stay as it is.
class OneRow {
 public:
  explicit OneRow(const std::vector<float>& scores, float scale = 1) : keys_(static_cast<int>(scores.size())) {
    std::copy(scores.begin(), scores.end(), tile_.scores);
    scale_ = scale;
  }

  // The row sees its first `visible` keys.
  void Update(int visible) { Update(0, visible); }
  void Update(int begin, int end) {
    SeeRange(begin, end, visible_);
    Update(visible_);
  }
  void Update(const uint64_t* visible) {
    ScoresTile seen = tile();
    seen.visible = visible;
    UpdateSoftmax(seen, {.maximum = &maximum, .sum = &sum, .correction = &correction});
  }
  void Load(const std::vector<float>& scores) { std::copy(scores.begin(), scores.end(), tile_.scores); }
  ScoresTile tile() { return {.scores = tile_.scores, .visible = visible_, .rows = 1, .keys = keys_, .scale = scale_}; }
  float weight(int j) const { return tile_.scores[j]; }

  float maximum = -kInfinity;
  float sum = 0;
  float correction = kNan;

 private:
  AlignedTile tile_;
  const int keys_;
  uint64_t visible_[kBlockGranules] = {};
  float scale_ = 1;
};

std::vector<float> RandomScores(int keys, float spread, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> scores(keys);
  for (float& s : scores) s = normal(random);
  return scores;
}

class SoftmaxTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

TEST_P(SoftmaxTest, WeightsAndSumsAreExact) {
  for (const float spread : {0.1f, 1.0f, 10.0f, 60.0f}) {
    for (const float scale : {1.0f, -0.5f, 0.0f, 3.0f}) {
      const auto scores = RandomScores(256, spread, 5);
      OneRow row(scores, scale);
      row.Update(256);
      double sum = 0;
      for (int j = 0; j < 256; ++j) {
        const float scaled = scores[j] * scale;
        const double distance = double{scaled} - row.maximum;
        const double exact = std::exp(distance);
        sum += exact;
        // Relative to the size of the exponent, whose rounding a float cannot avoid.
        ASSERT_NEAR(row.weight(j), exact, exact * 2e-7 * (1 + std::abs(distance)) + 2e-38) << "scaled score " << scaled;
      }
      EXPECT_NEAR(row.sum, sum, sum * 1e-6);
    }
  }
}

TEST_P(SoftmaxTest, EqualScoresWeighExactlyOne) {
  for (const float score : {0.0f, 1.5f, -3e38f, 3e38f, kLargest, -kLargest}) {
    OneRow row(std::vector<float>(128, score));
    row.Update(100);
    EXPECT_EQ(row.maximum, score);
    EXPECT_EQ(row.sum, 100) << score;
    EXPECT_EQ(row.weight(99), 1);
    EXPECT_EQ(row.weight(100), 0);
  }
}

// The product of score and scale is not exact here, and half a unit of its last place is 1e31.
TEST_P(SoftmaxTest, EqualHugeProductsWeighExactlyOne) {
  for (const float scale : {1.1e30f, -1.1e30f}) {
    OneRow row(std::vector<float>(64, 2.9e8f), scale);
    row.Update(64);
    EXPECT_EQ(row.sum, 64);
    EXPECT_EQ(row.weight(63), 1);
  }
}

TEST_P(SoftmaxTest, HugeScoresDoNotOverflowBeforeTheSubtraction) {
  std::vector<float> scores(64, -kLargest);
  scores[7] = kLargest;
  OneRow row(scores);
  row.Update(64);
  EXPECT_EQ(row.maximum, kLargest);
  EXPECT_EQ(row.sum, 1);
  EXPECT_EQ(row.weight(7), 1);
  EXPECT_EQ(row.weight(8), 0);
}

// Whatever a masked key scores, and whatever the scale: the same bits.
TEST_P(SoftmaxTest, MaskedKeysAreNotThere) {
  for (const float scale : {1.0f, -1.0f, 0.0f, 1e30f}) {
    for (const int visible : {0, 1, 31, 63, 64, 65, 127, 200, 256}) {
      auto scores = RandomScores(256, 2, 11);
      OneRow clean(scores, scale);
      clean.Update(visible);
      const float poisons[] = {kNan, kInfinity, -kInfinity, kLargest};
      for (int j = visible; j < 256; ++j) scores[j] = poisons[j % 4];
      OneRow poisoned(scores, scale);
      poisoned.Update(visible);
      EXPECT_EQ(std::bit_cast<uint32_t>(clean.sum), std::bit_cast<uint32_t>(poisoned.sum))
          << visible << " scale " << scale;
      EXPECT_EQ(clean.maximum, poisoned.maximum);
      for (int j = 0; j < 256; ++j) ASSERT_EQ(clean.weight(j), poisoned.weight(j)) << j;
      for (int j = visible; j < 256; ++j) ASSERT_EQ(poisoned.weight(j), 0) << j;
    }
  }
}

TEST_P(SoftmaxTest, TrimmingAWholeGranuleChangesNoBit) {
  const auto scores = RandomScores(256, 3, 12);
  for (const int visible : {1, 50, 64, 100, 128, 190}) {
    OneRow whole(scores);
    whole.Update(visible);
    const int keys = (visible + 63) / 64 * 64;
    OneRow trimmed({scores.begin(), scores.begin() + keys});
    trimmed.Update(visible);
    EXPECT_EQ(whole.sum, trimmed.sum);
    EXPECT_EQ(whole.maximum, trimmed.maximum);
    for (int j = 0; j < keys; ++j) ASSERT_EQ(whole.weight(j), trimmed.weight(j));
  }
}

// Keys are left out at both ends and in between: the sum and the weights are those of the same keys one by one.
TEST_P(SoftmaxTest, AnySetOfKeysIsSelected) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 50; ++round) {
    auto scores = RandomScores(256, 2, 22 + round);
    uint64_t visible[kBlockGranules];
    for (uint64_t& word : visible) word = round % 3 == 0 ? 0 : round % 3 == 1 ? random() : ~uint64_t{0};
    visible[round % kBlockGranules] = random();
    double top = -kInfinity;
    for (int j = 0; j < 256; ++j) {
      if ((visible[j / 64] >> (j % 64) & 1) == 0) {
        scores[j] = j % 2 == 0 ? kNan : kInfinity;
      } else {
        top = std::max(top, double{scores[j]});
      }
    }
    OneRow row(scores);
    row.Update(visible);
    EXPECT_EQ(row.maximum, top);
    double sum = 0;
    for (int j = 0; j < 256; ++j) {
      const bool sees = (visible[j / 64] >> (j % 64) & 1) != 0;
      const double exact = sees ? std::exp(scores[j] - top) : 0;
      ASSERT_NEAR(row.weight(j), exact, exact * 1e-5) << j;
      sum += exact;
    }
    EXPECT_NEAR(row.sum, sum, sum * 1e-6);
  }
}

// A mask that excludes nothing, or nothing of a granule, is no mask.
TEST_P(SoftmaxTest, SeeingAllByBitsIsSeeingAll) {
  const auto scores = RandomScores(256, 3, 23);
  OneRow plain(scores), masked(scores);
  plain.Update(nullptr);
  masked.Update(256);
  EXPECT_EQ(plain.sum, masked.sum);
  for (int j = 0; j < 256; ++j) ASSERT_EQ(plain.weight(j), masked.weight(j));
}

TEST_P(SoftmaxTest, GranulesBeforeTheFirstKeyChangeNoBit) {
  const auto scores = RandomScores(256, 3, 24);
  for (const int begin : {64, 70, 128, 191, 192, 255}) {
    OneRow whole(scores);
    whole.Update(begin, 256);
    const int first = begin / 64 * 64;
    OneRow trimmed({scores.begin() + first, scores.end()});
    trimmed.Update(begin - first, 256 - first);
    EXPECT_EQ(whole.sum, trimmed.sum);
    EXPECT_EQ(whole.maximum, trimmed.maximum);
    for (int j = 0; j < 256; ++j) ASSERT_EQ(whole.weight(j), j < first ? 0 : trimmed.weight(j - first)) << j;
  }
}

// Payloads differ because arithmetic on a NaN's bits is how a careless exponential loses one.
TEST_P(SoftmaxTest, AVisibleNanEndsInTheSumAndNotInTheMaximum) {
  for (const uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0xffc00001u, 0x7fffffffu, 0xffffffffu}) {
    for (const int position : {0, 1, 40, 63, 64, 99}) {
      auto scores = RandomScores(128, 1, 13);
      std::memcpy(&scores[position], &bits, sizeof(bits));
      OneRow row(scores);
      row.Update(100);
      EXPECT_TRUE(std::isnan(row.sum)) << std::hex << bits << " at " << position;
      EXPECT_TRUE(std::isnan(row.weight(position)));
      EXPECT_TRUE(std::isfinite(row.maximum));
    }
  }
}

TEST_P(SoftmaxTest, PlusInfinityMakesTheSumNan) {
  auto scores = RandomScores(64, 1, 14);
  scores[20] = kInfinity;
  OneRow row(scores);
  row.Update(64);
  EXPECT_TRUE(std::isnan(row.sum));
  row.Load(RandomScores(64, 1, 15));
  row.Update(64);
  EXPECT_TRUE(std::isnan(row.sum)) << "later tiles do not heal it";
}

TEST_P(SoftmaxTest, MinusInfinityCountsAsZeroUntilSomethingElseIsSeen) {
  OneRow row(std::vector<float>(64, -kInfinity));
  row.Update(64);
  EXPECT_EQ(row.maximum, -kInfinity) << "which tells that the row has nothing finite";
  EXPECT_EQ(row.sum, 0);
  row.Load(std::vector<float>(64, -5.0f));
  row.Update(64);
  EXPECT_EQ(row.maximum, -5);
  EXPECT_EQ(row.sum, 64);
}

TEST_P(SoftmaxTest, RescalesOnlyWhenTheMaximumGrowsMuch) {
  OneRow row(std::vector<float>(64, 1.0f));
  row.Update(64);
  EXPECT_EQ(row.maximum, 1);
  row.Load(std::vector<float>(64, 6.0f));
  row.Update(64);
  EXPECT_EQ(row.correction, 1);
  EXPECT_EQ(row.maximum, 1);
  EXPECT_NEAR(row.sum, 64 * (1 + std::exp(5.0)), 1e-2);
  row.Load(std::vector<float>(64, 21.0f));
  row.Update(64);
  EXPECT_NEAR(row.correction, std::exp(-20.0), 1e-14);
  EXPECT_EQ(row.maximum, 21);
  EXPECT_NEAR(row.sum, 64 * (std::exp(-20.0) + std::exp(-15.0) + 1), 1e-4);
}

TEST_P(SoftmaxTest, RescaleRowsTouchesOnlyRowsWithACorrection) {
  alignas(64) float sums[3 * 16];
  for (int i = 0; i < 48; ++i) sums[i] = static_cast<float>(i);
  const float correction[] = {1, 0.5f, 0};
  RescaleRows(correction, 3, 16, sums);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(sums[i], i);
    EXPECT_EQ(sums[16 + i], (16 + i) * 0.5f);
    EXPECT_EQ(sums[32 + i], 0);
  }
}

// A tile in the middle of a part of a row: the part is written up to its width, and nothing beside it.
TEST_P(SoftmaxTest, WritesFinalWeightsAndExactZeros) {
  const auto scores = RandomScores(128, 1, 16);
  for (const int visible : {0, 1, 7, 8, 64, 77, 101, 128}) {
    for (const TilePlace place : {TilePlace{0, 101}, TilePlace{64, 165}, TilePlace{64, 256}, TilePlace{0, 3}}) {
      OneRow sums(scores);
      sums.Update(visible);
      OneRow row(scores);
      row.Update(visible);
      row.Load(scores);
      const float inverse = 1 / sums.sum;
      std::vector<float> weights(258, kNan);
      const WeightsRow destination = {.to = weights.data() + 1};
      WriteWeights(row.tile(), &sums.maximum, &inverse, place, &destination);
      EXPECT_TRUE(std::isnan(weights[0]) && std::isnan(weights[1 + place.width]));
      for (int at = 0; at < place.width; ++at) {
        const int j = at - place.first;
        const double exact = j >= 0 && j < visible ? std::exp(double{scores[j]} - sums.maximum) / sums.sum : 0;
        ASSERT_NEAR(destination.to[at], exact, exact * 1e-6) << at;  // exactly 0 where masked
      }
    }
  }
}

TEST_P(SoftmaxTest, WeightsAreAddedAndDivided) {
  for (const int width : {3, 8, 64, 77}) {
    OneRow row(std::vector<float>(64, 0.0f));
    row.Update(2);
    row.Load(std::vector<float>(64, 0.0f));
    std::vector<float> weights(width + 1, 1.0f);
    const float maximum = 0;
    const float factor = 0.5f;
    WeightsRow destination = {.to = weights.data(), .add = true};
    WriteWeights(row.tile(), &maximum, &factor, {0, width}, &destination);
    for (int j = 0; j < width; ++j) ASSERT_EQ(weights[j], j < 2 ? 1.5f : 1.0f);
    destination.divisor = 4;
    WriteWeights(row.tile(), &maximum, &factor, {0, width}, &destination);
    for (int j = 0; j < width; ++j) ASSERT_EQ(weights[j], j < 2 ? 0.5f : 0.25f);
    EXPECT_EQ(weights[width], 1);
    destination.to = nullptr;
    WriteWeights(row.tile(), &maximum, &factor, {0, width}, &destination);
  }
}

TEST_P(SoftmaxTest, WritesScaledScoresAndMinusInfinity) {
  auto scores = RandomScores(128, 1, 17);
  scores[70] = kNan;
  scores[71] = -kInfinity;
  OneRow row(scores, -2);
  row.Update(66, 100);
  row.Load(scores);
  std::vector<float> written(201, 5.0f);
  float* const destination = written.data();
  WriteScores(row.tile(), {64, 200}, &destination);
  for (int at = 0; at < 200; ++at) {
    const int j = at - 64;
    if (j == 70) {
      ASSERT_TRUE(std::isnan(written[at]));
    } else {
      ASSERT_EQ(written[at], j >= 66 && j < 100 ? -2 * scores[j] : -kInfinity) << at;
    }
  }
  EXPECT_EQ(written[200], 5);
  ScoresTile all = row.tile();
  all.visible = nullptr;
  WriteScores(all, {0, 101}, &destination);
  for (int j = 0; j < 101; ++j) {
    if (j != 70) {
      ASSERT_EQ(written[j], -2 * scores[j]) << j;
    }
  }
  EXPECT_EQ(written[101], -kInfinity) << "as it was: key 37 of the tile before";
}

TEST_P(SoftmaxTest, RoundsToNearestEven) {
  std::mt19937 random(17);
  std::vector<float> numbers = {0.0f,       1.0f,  1 + 0.5f / 128, 1 + 1.5f / 128, 1 + 0.75f / 128, kLargest, kInfinity,
                                -kInfinity, 65504, 65520,          65519.9f,       1e-8f,           6e-8f,    1e-40f};
  for (int i = 0; i < 5000; ++i) {
    const auto number = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(number)) numbers.push_back(number);
  }
  const int count = static_cast<int>(numbers.size());
  std::vector<uint16_t> rounded(count);
  WriteScaledRow(numbers.data(), count, 1, ElementType::kBFloat16, rounded.data());
  for (int i = 0; i < count; ++i) ASSERT_EQ(rounded[i], FloatToBFloat16(numbers[i])) << numbers[i];
  RoundToBFloat16(numbers.data(), count, rounded.data());
  for (int i = 0; i < count; ++i) ASSERT_EQ(rounded[i], FloatToBFloat16(numbers[i])) << numbers[i];
  WriteScaledRow(numbers.data(), count, 1, ElementType::kFloat16, rounded.data());
  for (int i = 0; i < count; ++i) ASSERT_EQ(rounded[i], FloatToFloat16(numbers[i])) << numbers[i];
}

TEST_P(SoftmaxTest, EveryZeroIsWrittenAsPlusZero) {
  const float zeros[] = {-0.0f, 0.0f};
  uint32_t whole[2];
  WriteScaledRow(zeros, 2, 1, ElementType::kFloat32, whole);
  EXPECT_THAT(whole, testing::Each(0u));
  uint16_t half[2];
  WriteScaledRow(zeros, 2, 1, ElementType::kFloat16, half);
  EXPECT_THAT(half, testing::Each(0));
}

TEST_P(SoftmaxTest, EveryNanIsWrittenAsTheSameQuietNan) {
  std::vector<float> numbers;
  for (const uint32_t bits : {0x7fc00000u, 0xffc12345u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    numbers.push_back(std::bit_cast<float>(bits));
  }
  uint32_t whole[5];
  WriteScaledRow(numbers.data(), 5, 1, ElementType::kFloat32, whole);
  EXPECT_THAT(whole, testing::Each(0x7fc00000u));
  uint16_t half[5];
  WriteScaledRow(numbers.data(), 5, 1, ElementType::kBFloat16, half);
  EXPECT_THAT(half, testing::Each(0x7fc0));
  WriteScaledRow(numbers.data(), 5, 1, ElementType::kFloat16, half);
  EXPECT_THAT(half, testing::Each(0x7e00));
}

// Whether they are is said of the products, in every lane, and of none beyond the row.
TEST_P(SoftmaxTest, TellsWhetherResultsAreFinite) {
  for (int count = 1; count <= 40; ++count) {
    std::vector<float> numbers(static_cast<size_t>(count), 1e38f);
    std::vector<float> row(40);
    EXPECT_TRUE(WriteScaledRow(numbers.data(), count, 3, ElementType::kFloat32, row.data()));
    EXPECT_FALSE(WriteScaledRow(numbers.data(), count, 4, ElementType::kFloat32, row.data()));
    EXPECT_FALSE(WriteScaledRow(numbers.data(), count, kInfinity, ElementType::kFloat32, row.data()));
    for (float number : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      for (int i = 0; i < count; ++i) {
        std::vector<float> some = numbers;
        some[static_cast<size_t>(i)] = number;
        ASSERT_FALSE(WriteScaledRow(some.data(), count, 1e-38f, ElementType::kFloat32, row.data())) << i;
      }
    }
  }
}

TEST_P(SoftmaxTest, WritesOnlyTheRow) {
  const std::vector<float> numbers(40, 2.0f);
  for (int count = 0; count <= 40; ++count) {
    std::vector<float> row(42, -1);
    WriteScaledRow(numbers.data(), count, 0.25f, ElementType::kFloat32, row.data() + 1);
    EXPECT_EQ(row[0], -1);
    for (int i = 0; i < count; ++i) ASSERT_EQ(row[1 + i], 0.5f);
    for (int i = count; i < 41; ++i) ASSERT_EQ(row[1 + i], -1) << count;
  }
}

}  // namespace
}  // namespace attend::core
