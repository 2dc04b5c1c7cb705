#include "core/element_type.h"

#include <bit>
#include <cstdint>

namespace attend::core {
namespace {

// `value` shifted right by `shift` bits (1 to 31), rounded to nearest, ties to even.
uint32_t ShiftRightRounded(uint32_t value, int shift) {
  const uint32_t half = (uint32_t{1} << (shift - 1)) - 1;
  const uint32_t odd = (value >> shift) & 1;
  return (value + half + odd) >> shift;
}

}  // namespace

float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return static_cast<uint16_t>((bits >> 16) | 0x0040);  // NaN: rounding could carry out of it
  const uint32_t sign = (bits >> 16) & 0x8000;
  return static_cast<uint16_t>(sign | ShiftRightRounded(magnitude, 16));
}

float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in a float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

uint16_t FloatToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));  // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and up round to infinity
  if (magnitude >= 0x38800000) {                                             // 2^-14 and up: normal
    const uint32_t rebiased = magnitude - ((127 - 15) << 23);
    return static_cast<uint16_t>(sign | ShiftRightRounded(rebiased, 13));  // a carry moves on into the exponent
  }
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent < 102) return static_cast<uint16_t>(sign);  // below 2^-25, half the smallest subnormal
  const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  return static_cast<uint16_t>(sign | ShiftRightRounded(significand, 126 - exponent));
}

}  // namespace attend::core
