#include "client/element_rounding.h"

#include <bit>
#include <cstring>
#include <memory>
#include <utility>

namespace attend::client {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;

template <uint16_t (*kRound)(float)>
void RoundInto(std::span<const float> elements, std::byte* target) {
  for (const float element : elements) {
    const uint16_t bits = kRound(element);
    std::memcpy(target, &bits, sizeof(bits));
    target += sizeof(bits);
  }
}

template <float (*kWiden)(uint16_t)>
void WidenInto(std::span<const std::byte> data, std::vector<float>& target) {
  for (size_t i = 0; i < target.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, data.data() + i * sizeof(bits), sizeof(bits));
    target[i] = kWiden(bits);
  }
}

}  // namespace

uint16_t RoundToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > kInfinity) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The magic numbers: 65520 is the smallest that rounds to infinity, 2^-14 the smallest normal number. Below it the
// addition of 0.5, whose last bit is worth 2^-24, rounds to float16's own subnormal grid.
uint16_t RoundToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kInfinity) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    const auto shifted = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (shifted - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - (uint32_t{127 - 15} << 23);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t shifted = static_cast<uint32_t>(bits & 0x7fff) << 13;
  if (shifted >= 0x0f800000) return std::bit_cast<float>(sign | kInfinity | shifted);
  constexpr float kTwoTo112 = 0x1p112f;  // the difference of the exponents' biases; makes subnormal numbers normal
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(shifted) * kTwoTo112));
}

double UnitRoundoff(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FLOAT32:
      return 0x1p-24;
    case v1::DATA_TYPE_BFLOAT16:
      return 0x1p-8;
    case v1::DATA_TYPE_FLOAT16:
      return 0x1p-11;
    default:
      return 0;
  }
}

absl::string_view DataTypeName(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FLOAT32:
      return "f32";
    case v1::DATA_TYPE_BFLOAT16:
      return "bf16";
    case v1::DATA_TYPE_FLOAT16:
      return "f16";
    case v1::DATA_TYPE_BOOL:
      return "bool";
    case v1::DATA_TYPE_INT64:
      return "int64";
    default:
      return "unspecified";
  }
}

bool IsFloatType(v1::DataType type) { return UnitRoundoff(type) > 0; }

TensorView RoundTensor(v1::DataType type, std::vector<int64_t> shape, std::span<const float> elements) {
  const size_t bytes = elements.size() * static_cast<size_t>(ElementBytes(type));
  std::shared_ptr<std::byte[]> data(new std::byte[bytes]);
  if (type == v1::DATA_TYPE_BFLOAT16) {
    RoundInto<RoundToBFloat16>(elements, data.get());
  } else if (type == v1::DATA_TYPE_FLOAT16) {
    RoundInto<RoundToFloat16>(elements, data.get());
  } else if (bytes > 0) {
    std::memcpy(data.get(), elements.data(), bytes);
  }
  const std::span<const std::byte> view(data.get(), bytes);
  return {.data_type = type, .shape = std::move(shape), .data = view, .owner = std::move(data)};
}

std::vector<float> WidenElements(v1::DataType type, std::span<const std::byte> data) {
  std::vector<float> elements(data.size() / static_cast<size_t>(ElementBytes(type)));
  if (type == v1::DATA_TYPE_BFLOAT16) {
    WidenInto<BFloat16ToFloat>(data, elements);
  } else if (type == v1::DATA_TYPE_FLOAT16) {
    WidenInto<Float16ToFloat>(data, elements);
  } else if (!elements.empty()) {
    std::memcpy(elements.data(), data.data(), data.size());
  }
  return elements;
}

}  // namespace attend::client
