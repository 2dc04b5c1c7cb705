// Every property on every instruction set that this processor and this build have.
#include "core/visibility.h"

#include <hwy/highway.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/element_type.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

using Words = std::array<uint64_t, kBlockGranules>;

bool Bit(const uint64_t* words, int key) { return (words[key / 64] >> (key % 64) & 1) != 0; }

class VisibilityTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, VisibilityTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

TEST_P(VisibilityTest, ARangeOfKeys) {
  for (const int begin : {0, 1, 63, 64, 65, 128, 200, 256}) {
    for (const int end : {0, 1, 63, 64, 100, 128, 255, 256}) {
      Words words;
      SeeRange(begin, end, words.data());
      for (int key = 0; key < kKeyBlock; ++key) {
        ASSERT_EQ(Bit(words.data(), key), key >= begin && key < end) << begin << " " << end << " " << key;
      }
    }
  }
}

// Three rows, the first two of which share their elements; only `keys` elements are there to be read.
TEST_P(VisibilityTest, MasksExcludeWhatIsFalse) {
  std::mt19937 random(3);
  for (const int keys : {1, 5, 63, 64, 65, 130, 255, 256}) {
    std::vector<uint8_t> mask(2 * keys);
    for (uint8_t& m : mask) m = random() % 3 == 0 ? 0 : 1 << random() % 8;  // whatever is not 0 is true
    const void* const rows[] = {mask.data(), mask.data(), mask.data() + keys};
    std::vector<uint64_t> visible(3 * kBlockGranules, kAll);
    visible[1] = 0;  // excluded before
    ExcludeFalse({.rows = rows, .keys = keys}, 3, visible.data());
    for (int i = 0; i < 3; ++i) {
      for (int key = 0; key < kKeyBlock; ++key) {
        const bool before = i != 0 || key / 64 != 1;
        const bool allowed = key >= keys || static_cast<const uint8_t*>(rows[i])[key] != 0;
        ASSERT_EQ(Bit(&visible[i * kBlockGranules], key), before && allowed) << keys << " " << i << " " << key;
      }
    }
  }
}

// Elements at any place in memory, many times: what is left in memory from one call must not show in the next.
TEST_P(VisibilityTest, ElementsAnywhereExcludeAlike) {
  constexpr uint16_t kMinusInfinity = 0xfc00;
  constexpr int kTrials = 2000;
  std::mt19937 random(7);
  std::vector<uint16_t> elements(4096);
  for (uint16_t& element : elements) element = random() % 4 == 0 ? kMinusInfinity : random() % kMinusInfinity;
  for (int trial = 0; trial < kTrials; ++trial) {
    const uint16_t* const first = &elements[random() % (elements.size() - kKeyBlock)];
    const void* const rows[] = {first};
    Words visible;
    visible.fill(kAll);
    ExcludeInfinite({.rows = rows, .type = ElementType::kFloat16, .keys = kKeyBlock}, 1, visible.data());
    for (int key = 0; key < kKeyBlock; ++key) {
      ASSERT_EQ(Bit(visible.data(), key), first[key] != kMinusInfinity) << "trial " << trial << " key " << key;
    }
  }
}

TEST_P(VisibilityTest, OneElementForEveryKey) {
  const uint8_t mask[] = {0, 1};
  const void* const rows[] = {&mask[0], &mask[1]};
  std::vector<uint64_t> visible(2 * kBlockGranules, kAll);
  ExcludeFalse({.rows = rows, .per_key = false, .keys = 256}, 2, visible.data());
  for (int key = 0; key < kKeyBlock; ++key) {
    ASSERT_FALSE(Bit(&visible[0], key));
    ASSERT_TRUE(Bit(&visible[kBlockGranules], key));
  }
}

TEST_P(VisibilityTest, OnlyABiasOfMinusInfinityExcludes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float numbers[] = {0.0f, -kInfinity, kInfinity, std::nanf(""), -3.3e38f, -65504.0f, -0.0f};
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    constexpr int kKeys = 150;
    std::vector<uint32_t> bits(kKeys);  // room for any type
    for (int j = 0; j < kKeys; ++j) {
      const float number = type == ElementType::kFloat16 && j % 7 == 4 ? -65504.0f : numbers[j % 7];
      if (type == ElementType::kFloat32) {
        std::memcpy(&bits[j], &number, sizeof(number));
      } else {
        const uint16_t half = type == ElementType::kBFloat16 ? FloatToBFloat16(number) : FloatToFloat16(number);
        std::memcpy(reinterpret_cast<char*>(bits.data()) + j * sizeof(half), &half, sizeof(half));
      }
    }
    const void* const row = bits.data();
    Words visible;
    visible.fill(kAll);
    ExcludeInfinite({.rows = &row, .type = type, .keys = kKeys}, 1, visible.data());
    for (int j = 0; j < kKeys; ++j) ASSERT_EQ(Bit(visible.data(), j), j % 7 != 1) << ElementTypeName(type) << " " << j;
  }
}

}  // namespace
}  // namespace attend::core
