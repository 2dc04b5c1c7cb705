#include "server/non_finite_search.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/violation.h"
#include "server/tensor_codec.h"

namespace attend::server {
namespace {

// NaN and the infinities are what has an exponent of ones alone.
constexpr uint32_t ExponentOf(core::ElementType type) {
  switch (type) {
    case core::ElementType::kFloat32:
      return 0x7f800000;
    case core::ElementType::kBFloat16:
      return 0x7f80;
    case core::ElementType::kFloat16:
      return 0x7c00;
  }
  return 0;
}

// The index of the first of `count` elements that has an exponent of ones alone, or `count`. Blocks are looked at
// without a branch, so that the compiler can use its vectors.
template <typename Bits>
int64_t FindExponent(const Bits* elements, int64_t count, Bits exponent) {
  constexpr int64_t kBlock = 1024;
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t end = std::min(count, start + kBlock);
    Bits found = 0;
    for (int64_t i = start; i < end; ++i) found |= static_cast<Bits>((elements[i] & exponent) == exponent ? 1 : 0);
    if (found == 0) continue;
    return std::find_if(elements + start, elements + end,
                        [exponent](Bits bits) { return (bits & exponent) == exponent; }) -
           elements;
  }
  return count;
}

int64_t FindNonFinite(core::ElementType type, const void* elements, int64_t first, int64_t count) {
  const uint32_t exponent = ExponentOf(type);
  if (core::ElementBytes(type) == sizeof(uint32_t)) {
    return FindExponent(static_cast<const uint32_t*>(elements) + first, count, exponent);
  }
  return FindExponent(static_cast<const uint16_t*>(elements) + first, count, static_cast<uint16_t>(exponent));
}

float ElementAt(core::ElementType type, const void* elements, int64_t index) {
  const char* const place = static_cast<const char*>(elements) + index * core::ElementBytes(type);
  float value = 0;
  uint16_t bits = 0;
  switch (type) {
    case core::ElementType::kFloat32:
      std::memcpy(&value, place, sizeof(value));
      return value;
    case core::ElementType::kBFloat16:
      std::memcpy(&bits, place, sizeof(bits));
      return core::BFloat16ToFloat(bits);
    case core::ElementType::kFloat16:
      std::memcpy(&bits, place, sizeof(bits));
      return core::Float16ToFloat(bits);
  }
  return value;
}

// The place of an element in a tensor of `shape`.
std::string PlaceText(const std::vector<int64_t>& shape, int64_t index) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    place[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return absl::StrCat("[", absl::StrJoin(place, ", "), "]");
}

}  // namespace

NonFiniteSearch::NonFiniteSearch(const core::AttentionProblem& problem, const core::AttentionInputs& inputs)
    : type_(problem.type()) {
  const int64_t bytes = core::ElementBytes(type_);
  tensors_[0] = {"query.data", inputs.query, QueryShape(problem), problem.QueryBytes() / bytes};
  tensors_[1] = {"key.data", inputs.key, KeyShape(problem), problem.KeyBytes() / bytes};
  tensors_[2] = {"value.data", inputs.value, ValueShape(problem), problem.ValueBytes() / bytes};
}

absl::Status NonFiniteSearch::Step(int64_t max_bytes) {
  int64_t left = std::max<int64_t>(1, max_bytes / core::ElementBytes(type_));
  while (!done()) {
    const Tensor& tensor = tensors_[tensor_];
    const int64_t count = std::min(left, tensor.count - next_);
    const int64_t found = FindNonFinite(type_, tensor.elements, next_, count);
    if (found < count) return Refuse(tensor, next_ + found);
    next_ += count;
    left -= count;
    if (next_ < tensor.count) return absl::OkStatus();
    ++tensor_;
    next_ = 0;
  }
  return absl::OkStatus();
}

absl::Status NonFiniteSearch::Refuse(const Tensor& tensor, int64_t index) const {
  const std::string value =
      absl::StrCat(ElementAt(type_, tensor.elements, index), " at ", PlaceText(tensor.shape, index));
  const core::Violation violation = {
      .field = std::string(tensor.field), .reason = "ELEMENT_NOT_FINITE", .value = value, .limit = "finite"};
  return core::InvalidArgument(
      violation, absl::StrCat(tensor.field, " has ", value, ", must be finite (options.reject_non_finite)"));
}

}  // namespace attend::server
