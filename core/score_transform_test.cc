// Every property on every instruction set that this processor and this build have.
#include "core/score_transform.h"

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/element_type.h"
#include "core/visibility.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ScoreTransformTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  ScoresTile Tile(const std::vector<float>& scores, int rows, float scale = 1) {
    std::copy(scores.begin(), scores.end(), scores_);
    return {.scores = scores_, .rows = rows, .keys = static_cast<int>(scores.size()) / rows, .scale = scale};
  }

  alignas(64) float scores_[2 * kKeyBlock];
};

INSTANTIATE_TEST_SUITE_P(Targets, ScoreTransformTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

std::vector<float> RandomScores(int count, float spread) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> scores(count);
  for (float& s : scores) s = normal(random);
  return scores;
}

void ExpectCapped(const std::vector<float>& scores, float scale, float cap, const float* capped) {
  for (size_t j = 0; j < scores.size(); ++j) {
    const double scaled = scores[j] * scale;
    const double exact = cap * std::tanh(scaled / cap);
    ASSERT_NEAR(capped[j], exact, std::abs(exact) * 1e-6 + 1e-44) << scaled << " cap " << cap;
    ASSERT_LE(std::abs(capped[j]), cap);
  }
}

TEST_P(ScoreTransformTest, CapsAreTanh) {
  for (const float cap : {0.5f, 20.0f, 50.0f, 1e-30f, 1e30f, 3e38f, 1e-45f}) {
    for (const float spread : {1e-30f, 1e-3f, 1.0f, 30.0f, 1e4f, 1e36f}) {
      for (const float scale : {1.0f, -0.25f}) {
        const auto scores = RandomScores(256, spread);
        ScoresTile tile = Tile(scores, 1, scale);
        CapScores(cap, tile);
        EXPECT_EQ(tile.scale, 1);
        ExpectCapped(scores, scale, cap, scores_);
      }
    }
  }
}

TEST_P(ScoreTransformTest, CapsOfNumbersThatAreNot) {
  std::vector<float> scores(64, 0.0f);
  scores[0] = kInfinity;
  scores[1] = -kInfinity;
  scores[2] = kNan;
  scores[3] = 3e38f;
  scores[4] = -kNan;
  ScoresTile tile = Tile(scores, 1);
  CapScores(7, tile);
  EXPECT_EQ(scores_[0], 7);
  EXPECT_EQ(scores_[1], -7);
  EXPECT_TRUE(std::isnan(scores_[2]));
  EXPECT_EQ(scores_[3], 7);
  EXPECT_TRUE(std::isnan(scores_[4]));
  EXPECT_EQ(scores_[5], 0);
}

TEST_P(ScoreTransformTest, BiasesOfEveryTypeAreAdded) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    for (const int keys : {1, 7, 64, 77, 128}) {
      const int bytes = static_cast<int>(ElementBytes(type));
      std::vector<unsigned char> elements(keys * bytes);  // no more than there are: a sanitizer sees what is read
      std::vector<float> bias(keys);
      for (int j = 0; j < keys; ++j) {
        bias[j] = static_cast<float>(j) * 0.25f - 9;
        const uint16_t half = type == ElementType::kBFloat16 ? FloatToBFloat16(bias[j]) : FloatToFloat16(bias[j]);
        std::memcpy(&elements[j * bytes], bytes == 4 ? static_cast<const void*>(&bias[j]) : &half, bytes);
      }
      const auto scores = RandomScores(256, 3);
      ScoresTile tile = Tile(scores, 2, 0.3f);
      const void* const rows[] = {elements.data(), elements.data()};
      AddBias({.rows = rows, .type = type, .keys = keys}, tile);
      EXPECT_EQ(tile.scale, 1);
      for (int x = 0; x < 256; ++x) {
        const float scaled = scores[x] * 0.3f;
        const int j = x % 128;
        const float added = j < keys
                                ? scaled + (type == ElementType::kBFloat16  ? BFloat16ToFloat(FloatToBFloat16(bias[j]))
                                            : type == ElementType::kFloat16 ? Float16ToFloat(FloatToFloat16(bias[j]))
                                                                            : bias[j])
                                : scaled;
        ASSERT_EQ(scores_[x], added) << ElementTypeName(type) << " " << keys << " " << x;
      }
    }
  }
}

TEST_P(ScoreTransformTest, OneBiasForEveryKeyOfARow) {
  const float biases[] = {2.5f, -1.0f};
  const void* const rows[] = {&biases[0], &biases[1]};
  const auto scores = RandomScores(128, 3);
  ScoresTile tile = Tile(scores, 2);
  AddBias({.rows = rows, .per_key = false, .keys = 64}, tile);
  for (int x = 0; x < 128; ++x) ASSERT_EQ(scores_[x], scores[x] + biases[x / 64]);
}

TEST_P(ScoreTransformTest, DistancesCountBothWays) {
  const float slopes[] = {0.5f, -0.125f};
  const auto scores = RandomScores(512, 3);
  for (const int64_t position : {int64_t{-1000}, int64_t{-1}, int64_t{0}, int64_t{100}, int64_t{255}, int64_t{300},
                                 (int64_t{1} << 24) + 1, -(int64_t{1} << 40)}) {
    const int64_t positions[] = {position, position + 1};
    ScoresTile tile = Tile(scores, 2, 2);
    AddDistances({.slopes = slopes, .positions = positions}, tile);
    EXPECT_EQ(tile.scale, 1);
    for (int x = 0; x < 512; ++x) {
      const auto distance = static_cast<float>(std::abs(positions[x / 256] - x % 256));
      const float penalty = slopes[x / 256] * distance;
      ASSERT_EQ(scores_[x], scores[x] * 2 - penalty) << position << " " << x;
    }
  }
  // As far as int64 reaches, and 0 of it.
  const int64_t far[] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const float nothing[] = {0, 0};
  ScoresTile tile = Tile(scores, 2);
  AddDistances({.slopes = nothing, .positions = far}, tile);
  for (int x = 0; x < 512; ++x) ASSERT_EQ(scores_[x], scores[x]);
}

TEST_P(ScoreTransformTest, GranulesThatNobodySeesAreLeftAlone) {
  const auto scores = RandomScores(256, 3);
  uint64_t visible[kBlockGranules];
  SeeRange(70, 130, visible);
  ScoresTile tile = Tile(scores, 1, 3);
  tile.visible = visible;
  CapScores(1, tile);
  for (int j = 0; j < 256; ++j) ASSERT_EQ(scores_[j] == scores[j], j < 64 || j >= 192) << j;
}

}  // namespace
}  // namespace attend::core
