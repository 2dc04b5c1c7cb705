// From float to the element types of tensors and back, one element or a whole tensor at a time.
#ifndef ATTEND_CLIENT_ELEMENT_ROUNDING_H_
#define ATTEND_CLIENT_ELEMENT_ROUNDING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "attend/v1/attention.pb.h"
#include "client/tensor.h"

namespace attend::client {

// Round to nearest, ties to even; NaN stays NaN; what is too large becomes infinite.
uint16_t RoundToBFloat16(float value);
uint16_t RoundToFloat16(float value);
// Exact.
float BFloat16ToFloat(uint16_t bits);
float Float16ToFloat(uint16_t bits);

// The largest relative error of rounding to `type`: 2^-24, 2^-8 and 2^-11 for FLOAT32, BFLOAT16 and FLOAT16; 0 for
// anything else.
double UnitRoundoff(v1::DataType type);

// "f32", "bf16", "f16", "bool", "int64" or "unspecified", as options and messages say it.
absl::string_view DataTypeName(v1::DataType type);

// True for FLOAT32, BFLOAT16 and FLOAT16.
bool IsFloatType(v1::DataType type);

// A tensor with `elements` rounded to `type`, which is a float type. The result owns its memory.
TensorView RoundTensor(v1::DataType type, std::vector<int64_t> shape, std::span<const float> elements);

// The elements of a tensor of a float type as floats, exactly. `data` has whole elements; it need not be aligned.
std::vector<float> WidenElements(v1::DataType type, std::span<const std::byte> data);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ELEMENT_ROUNDING_H_
