// The element types of queries, keys, values and outputs.
#ifndef ATTEND_CORE_ELEMENT_TYPE_H_
#define ATTEND_CORE_ELEMENT_TYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace attend::core {

enum class ElementType {
  kFloat32,   // IEEE 754 binary32
  kBFloat16,  // the upper half of a binary32
  kFloat16,   // IEEE 754 binary16
};

// Bytes of one element: 4 or 2.
constexpr int64_t ElementBytes(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }

// "f32", "bf16" or "f16", as flags and messages say it.
constexpr absl::string_view ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "f32";
    case ElementType::kBFloat16:
      return "bf16";
    case ElementType::kFloat16:
      return "f16";
  }
  return "";
}

// Exact conversions of one element, portable and slow: tiles convert whole rows by SIMD (core/softmax.h,
// core/packing.h).
float BFloat16ToFloat(uint16_t bits);
float Float16ToFloat(uint16_t bits);
// Round to nearest, ties to even; NaN stays NaN (quiet); too large becomes infinite.
uint16_t FloatToBFloat16(float value);
uint16_t FloatToFloat16(float value);

}  // namespace attend::core

#endif  // ATTEND_CORE_ELEMENT_TYPE_H_
