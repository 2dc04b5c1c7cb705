#include "core/element_type.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of an f16 bit pattern by the definition of IEEE 754, in double precision.
double Float16ByDefinition(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(ElementTypeTest, NamesAndBytes) {
  EXPECT_EQ(ElementBytes(ElementType::kFloat32), 4);
  EXPECT_EQ(ElementBytes(ElementType::kBFloat16), 2);
  EXPECT_EQ(ElementBytes(ElementType::kFloat16), 2);
  EXPECT_EQ(ElementTypeName(ElementType::kFloat32), "f32");
  EXPECT_EQ(ElementTypeName(ElementType::kBFloat16), "bf16");
  EXPECT_EQ(ElementTypeName(ElementType::kFloat16), "f16");
}

TEST(ElementTypeTest, EveryFloat16ConvertsExactlyAndBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const double expected = Float16ByDefinition(static_cast<uint16_t>(bits));
    const float actual = Float16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
      EXPECT_TRUE(std::isnan(Float16ToFloat(FloatToFloat16(actual)))) << bits;
      continue;
    }
    ASSERT_EQ(actual, expected) << bits;
    ASSERT_EQ(std::signbit(actual), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(FloatToFloat16(actual), bits);
  }
}

TEST(ElementTypeTest, EveryBFloat16ConvertsExactlyAndBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = BFloat16ToFloat(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(FloatToBFloat16(value), bits);
    }
  }
}

// Between each two neighbours: the middle goes to the even one, what is nearer to one goes to that one.
template <float (*kWiden)(uint16_t), uint16_t (*kNarrow)(float)>
void ExpectRoundsToNearestEven(uint32_t end) {
  for (uint32_t bits = 0; bits < end; ++bits) {
    const float low = kWiden(static_cast<uint16_t>(bits));
    const float high = kWiden(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(kNarrow(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(kNarrow(std::nextafter(middle, low)), bits) << bits;
    ASSERT_EQ(kNarrow(std::nextafter(middle, high)), bits + 1) << bits;
    ASSERT_EQ(kNarrow(-middle), (bits + (bits & 1)) | 0x8000) << bits;
  }
}

TEST(ElementTypeTest, RoundsToNearestEven) {
  ExpectRoundsToNearestEven<Float16ToFloat, FloatToFloat16>(0x7bff);

  ExpectRoundsToNearestEven<BFloat16ToFloat, FloatToBFloat16>(0x7f7f);
}

TEST(ElementTypeTest, TooLargeBecomesInfinite) {
  EXPECT_EQ(FloatToFloat16(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToFloat16(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToFloat16(kInfinity), 0x7c00);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(FloatToBFloat16(-kInfinity), 0xff80);
}

TEST(ElementTypeTest, NaNStaysNaN) {
  // A signalling NaN whose upper half alone would be an infinity.
  const float signalling = std::bit_cast<float>(uint32_t{0x7f800001});
  EXPECT_EQ(FloatToBFloat16(signalling), 0x7fc0);
  EXPECT_EQ(FloatToFloat16(signalling), 0x7e00);
}

}  // namespace
}  // namespace attend::core
