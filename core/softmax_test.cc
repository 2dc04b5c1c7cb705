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

  void Update(int visible) {
    visible_ = visible;
    UpdateSoftmax(tile(), {.maximum = &maximum, .sum = &sum, .correction = &correction});
  }
  void Load(const std::vector<float>& scores) { std::copy(scores.begin(), scores.end(), tile_.scores); }
  ScoresTile tile() {
    return {.scores = tile_.scores, .visible = &visible_, .rows = 1, .keys = keys_, .scale = scale_};
  }
  float weight(int j) const { return tile_.scores[j]; }

  float maximum = -kInfinity;
  float sum = 0;
  float correction = kNan;

 private:
  AlignedTile tile_;
  const int keys_;
  int visible_ = 0;
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

TEST_P(SoftmaxTest, WritesFinalWeightsAndExactZeros) {
  const auto scores = RandomScores(128, 1, 16);
  for (const int visible : {0, 1, 7, 8, 64, 77, 101}) {
    OneRow sums(scores);
    sums.Update(visible);
    OneRow row(scores);
    row.Update(0);
    row.Load(scores);
    ScoresTile tile = row.tile();
    tile.visible = &visible;
    const float inverse = 1 / sums.sum;
    std::vector<float> weights(103, kNan);
    float* const destination = weights.data() + 1;
    WriteWeights(tile, &sums.maximum, &inverse, 101, &destination);
    EXPECT_TRUE(std::isnan(weights[0]) && std::isnan(weights[102])) << "nothing beside the row is written";
    double total = 0;
    for (int j = 0; j < 101; ++j) {
      total += destination[j];
      const double exact = j < visible ? std::exp(double{scores[j]} - sums.maximum) / sums.sum : 0;
      ASSERT_NEAR(destination[j], exact, exact * 1e-6) << j;  // exactly 0 where masked
    }
    EXPECT_NEAR(total, visible == 0 ? 0 : 1, 1e-6);
  }
}

TEST_P(SoftmaxTest, RoundsToNearestEven) {
  std::mt19937 random(17);
  std::vector<float> numbers = {0.0f,     -0.0f,     1.0f,       1 + 0.5f / 128, 1 + 1.5f / 128, 1 + 0.75f / 128,
                                kLargest, kInfinity, -kInfinity, 65504,          65520,          65519.9f,
                                1e-8f,    6e-8f,     1e-40f};
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
