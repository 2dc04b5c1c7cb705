#include "client/random_tensor.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/element_rounding.h"

namespace attend::client {
namespace {

absl::StatusOr<int64_t> CountElements(v1::DataType type, const std::vector<int64_t>& shape) {
  int64_t bytes = ElementBytes(type);
  bool overflow = false;
  bool empty = false;
  for (const int64_t length : shape) {
    if (length < 0) return absl::InvalidArgumentError(absl::StrCat("a length is ", length, ", must be at least 0"));
    empty |= length == 0;
    overflow |= __builtin_mul_overflow(bytes, length, &bytes);
  }
  if (empty) return 0;
  if (overflow) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a tensor of shape [", absl::StrJoin(shape, ", "), "] overflows 64 bits"));
  }
  return bytes / ElementBytes(type);
}

}  // namespace

absl::StatusOr<TensorView> MakeRandomTensor(v1::DataType type, const std::vector<int64_t>& shape, uint64_t seed,
                                            const std::function<bool()>& interrupted) {
  auto count = CountElements(type, shape);
  if (!count.ok()) return count.status();
  const auto element_bytes = static_cast<size_t>(ElementBytes(type));
  const size_t bytes = static_cast<size_t>(*count) * element_bytes;
  std::shared_ptr<std::byte[]> data(new (std::nothrow) std::byte[bytes]);
  if (data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for a tensor of ", bytes, " bytes"));

  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::byte* target = data.get();
  constexpr int64_t kGlance = 65536;  // elements, about a millisecond
  for (int64_t i = 0; i < *count; ++i, target += element_bytes) {
    if (i % kGlance == 0 && interrupted && interrupted()) return absl::CancelledError("interrupted");
    const float value = normal(random);
    const uint16_t bits = type == v1::DATA_TYPE_BFLOAT16 ? RoundToBFloat16(value) : RoundToFloat16(value);
    if (type == v1::DATA_TYPE_FLOAT32) {
      std::memcpy(target, &value, sizeof(value));
    } else {
      std::memcpy(target, &bits, sizeof(bits));
    }
  }
  const std::span<const std::byte> view(data.get(), bytes);
  return TensorView{.data_type = type, .shape = shape, .data = view, .owner = std::move(data)};
}

}  // namespace attend::client
