#include "client/element_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace attend::client {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ElementRounding, KnownBFloat16) {
  const std::pair<float, uint16_t> cases[] = {
      {0.0f, 0x0000},           {-0.0f, 0x8000},       {1.0f, 0x3f80},      {-2.0f, 0xc000},
      {kInf, 0x7f80},           {1 + 0x1p-8f, 0x3f80},  // a tie, to even: down
      {1 + 0x3p-8f, 0x3f82},                            // a tie, to even: up
      {1 + 0x1.02p-8f, 0x3f81}, {3.4e38f, 0x7f80},     {0x1p-133f, 0x0001}, {-kInf, 0xff80}};
  for (const auto& [value, bits] : cases) EXPECT_EQ(RoundToBFloat16(value), bits) << value;
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(RoundToBFloat16(kNan))));
}

TEST(ElementRounding, KnownFloat16) {
  const std::pair<float, uint16_t> cases[] = {{0.0f, 0x0000},         {-0.0f, 0x8000},        {1.0f, 0x3c00},
                                              {-2.0f, 0xc000},        {kInf, 0x7c00},         {65504.0f, 0x7bff},
                                              {65519.0f, 0x7bff},     {65520.0f, 0x7c00},     {0x1p-14f, 0x0400},
                                              {0x1p-24f, 0x0001},     {0x1p-25f, 0x0000},     {0x3p-25f, 0x0002},
                                              {0x1.04p-25f, 0x0001},  {1 + 0x1p-11f, 0x3c00}, {1 + 0x3p-11f, 0x3c02},
                                              {0x1.ff8p-15f, 0x03ff}, {0x1.ffcp-15f, 0x0400}};
  for (const auto& [value, bits] : cases) EXPECT_EQ(RoundToFloat16(value), bits) << value;
  EXPECT_TRUE(std::isnan(Float16ToFloat(RoundToFloat16(kNan))));
}

TEST(ElementRounding, EveryValueOf16BitsSurvives) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    if (std::isnan(BFloat16ToFloat(bits))) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(RoundToBFloat16(BFloat16ToFloat(bits)))));
    } else {
      EXPECT_EQ(RoundToBFloat16(BFloat16ToFloat(bits)), bits);
    }
    if (std::isnan(Float16ToFloat(bits))) {
      EXPECT_TRUE(std::isnan(Float16ToFloat(RoundToFloat16(Float16ToFloat(bits)))));
    } else {
      EXPECT_EQ(RoundToFloat16(Float16ToFloat(bits)), bits);
    }
  }
}

TEST(ElementRounding, Float16ValuesAreThoseOfTheFormat) {
  for (int exponent = -24; exponent <= 15; ++exponent) {
    EXPECT_EQ(Float16ToFloat(RoundToFloat16(std::ldexp(1.0f, exponent))), std::ldexp(1.0f, exponent));
  }
  EXPECT_EQ(Float16ToFloat(0x3555), 0.333251953125f);
}

TEST(ElementRounding, TensorsRoundTrip) {
  const std::vector<float> elements = {1.0f, -0.5f, 3.0f, 0.0f, 2.5f, -8.0f};
  for (const v1::DataType type : {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16}) {
    const TensorView tensor = RoundTensor(type, {2, 3}, elements);
    EXPECT_EQ(tensor.data_type, type);
    EXPECT_EQ(static_cast<int64_t>(tensor.data.size()), 6 * ElementBytes(type));
    EXPECT_EQ(WidenElements(type, tensor.data), elements);
  }
  EXPECT_TRUE(WidenElements(v1::DATA_TYPE_FLOAT32, RoundTensor(v1::DATA_TYPE_FLOAT32, {0}, {}).data).empty());
}

TEST(ElementRounding, RoundoffIsTheWorstRelativeError) {
  EXPECT_EQ(std::abs(BFloat16ToFloat(RoundToBFloat16(1 + 0x1p-8f)) - (1 + 0x1p-8f)),
            UnitRoundoff(v1::DATA_TYPE_BFLOAT16));
  EXPECT_EQ(std::abs(Float16ToFloat(RoundToFloat16(1 + 0x1p-11f)) - (1 + 0x1p-11f)),
            UnitRoundoff(v1::DATA_TYPE_FLOAT16));
}

}  // namespace
}  // namespace attend::client
