#include "core/packing.h"

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/packing_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};

class PackingTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, PackingTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

// Rows [8, padded]: the source's, and zeros after them.
void ExpectPacked(const Source& source, int padded) {
  std::vector<float> out(8 * padded + 1, -1);
  PackRows(source.rows, padded, 8, ProductType::kFloat32, out.data());
  for (int i = 0; i < 8; ++i) {
    for (int d = 0; d < padded; ++d) ASSERT_EQ(out[i * padded + d], source.Get(i, d)) << i << " " << d;
  }
  EXPECT_EQ(out.back(), -1);
}

TEST_P(PackingTest, PacksRowsOfEveryType) {
  for (const ElementType type : kTypes) {
    for (const int dim : {1, 2, 3, 7, 16, 33, 80, 112}) {
      SCOPED_TRACE(testing::Message() << ElementTypeName(type) << " dim " << dim);
      ExpectPacked(Source(type, 5, dim, dim + 3, dim), (dim + 15) / 16 * 16);
    }
  }
}

// A panel of 64 keys in columns that lie `stride` apart: the source's, and zeros beside them.
void ExpectTransposed(const Source& source, int padded, int stride) {
  std::vector<float> out(padded * stride + 1, -1);
  PackKeyPanel(source.rows, padded, 64, {.keys = 64, .row_stride = stride}, ProductType::kFloat32, out.data());
  for (int d = 0; d < padded; ++d) {
    for (int j = 0; j < 64; ++j) ASSERT_EQ(out[d * stride + j], source.Get(j, d)) << j << " " << d;
    for (int j = 64; j < stride; ++j) ASSERT_EQ(out[d * stride + j], -1) << "columns beyond are not written";
  }
  EXPECT_EQ(out.back(), -1);
}

TEST_P(PackingTest, TransposesKeysOfEveryType) {
  for (const ElementType type : kTypes) {
    for (const int dim : {1, 3, 4, 5, 16, 33, 64}) {
      for (const int64_t count : {1, 3, 15, 16, 17, 63, 64}) {
        SCOPED_TRACE(testing::Message() << ElementTypeName(type) << " dim " << dim << " keys " << count);
        const Source source(type, count, dim, dim + 1, dim);
        for (const int stride : {64, 272}) ExpectTransposed(source, (dim + 15) / 16 * 16, stride);
      }
    }
  }
}

TEST_P(PackingTest, BFloat16StaysBFloat16) {
  const Source source(ElementType::kBFloat16, 21, 5, 5, 3);
  std::vector<uint16_t> rows(32 * 16);
  PackRows(source.rows, 16, 32, ProductType::kBFloat16, rows.data());
  std::vector<uint16_t> panel(16 * 272, 0xffff);
  PackKeyPanel(source.rows, 16, 64, {.keys = 256, .row_stride = 272}, ProductType::kBFloat16, panel.data());
  for (int d = 0; d < 16; ++d) {
    for (int j = 0; j < 32; ++j) ASSERT_EQ(BFloat16ToFloat(rows[j * 16 + d]), source.Get(j, d));
    for (int j = 0; j < 64; ++j) ASSERT_EQ(BFloat16ToFloat(panel[d * 272 + j]), source.Get(j, d));
  }
}

void ExpectFound(Source& source, float bad) {
  for (int64_t i = 0; i < source.rows.count; ++i) {
    for (int d = 0; d < source.rows.dim; ++d) {
      const float good = source.Get(i, d);
      source.Set(i, d, bad);
      ASSERT_FALSE(AllFinite(source.rows)) << bad << " at " << i << ", " << d;
      source.Set(i, d, good);
    }
  }
}

TEST_P(PackingTest, FindsEveryNumberThatIsNotFinite) {
  for (const ElementType type : kTypes) {
    for (const int dim : {1, 5, 16, 37}) {
      Source source(type, 3, dim, dim + 2, dim);
      source.Set(1, 0, type == ElementType::kFloat16 ? 65504 : 3e38f);
      ASSERT_TRUE(AllFinite(source.rows));
      for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
        SCOPED_TRACE(testing::Message() << ElementTypeName(type) << " dim " << dim);
        ExpectFound(source, bad);
      }
    }
  }
}

// A finite number may round to infinity, and NaN stays NaN.
TEST_P(PackingTest, AllFiniteLooksAtRoundedNumbersWhereTheseAreRead) {
  constexpr float kMost = 0x1.fep127F;  // the largest bf16 number
  for (const float number : {kMost, 0x1.fefffep127F, 0x1.ffp127F, std::numeric_limits<float>::max()}) {
    Source source(ElementType::kFloat32, 2, 37, 40, 1);
    source.Set(1, 36, -number);
    EXPECT_TRUE(AllFinite(source.rows)) << number;
    source.rows.rounded = true;
    EXPECT_EQ(AllFinite(source.rows), number < 0x1.ffp127F) << number;
  }
  Source source(ElementType::kFloat32, 1, 5, 5, 1);
  source.rows.rounded = true;
  for (const uint32_t bits : {0x7fffffffU, 0xffffffffU, 0x7f800001U}) {
    std::memcpy(&source.bytes[8], &bits, sizeof(bits));
    EXPECT_FALSE(AllFinite(source.rows)) << bits;
  }
}

TEST_P(PackingTest, AllFiniteLooksAtTheRowsAlone) {
  Source source(ElementType::kFloat32, 3, 4, 6, 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&source.bytes[4 * sizeof(float)], &nan, sizeof(nan));  // between rows 0 and 1
  EXPECT_TRUE(AllFinite(source.rows));
  source.rows.count = 0;
  EXPECT_TRUE(AllFinite(source.rows));
}

// Every f16 number, subnormal ones included.
TEST_P(PackingTest, ConvertsEveryFloat16Exactly) {
  std::vector<uint16_t> bits(65536);
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> out(65536);
  PackRows({.first = bits.data(), .stride = 65536, .count = 1, .dim = 65536, .type = ElementType::kFloat16}, 65536, 1,
           ProductType::kFloat32, out.data());
  for (int i = 0; i < 65536; ++i) {
    const float exact = Float16ToFloat(bits[i]);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(out[i]));
    } else {
      ASSERT_EQ(out[i], exact) << std::hex << i;
    }
  }
}

TEST_P(PackingTest, ExpandsBFloat16Exactly) {
  std::vector<uint16_t> bits(1003);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i * 61);
  std::vector<float> out(1004, -1);
  ExpandBFloat16(bits.data(), 1003, out.data());
  for (int i = 0; i < 1003; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(BFloat16ToFloat(bits[i])));
  }
  EXPECT_EQ(out[1003], -1);
}

}  // namespace
}  // namespace attend::core
