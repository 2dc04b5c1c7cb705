// Compiled once per instruction set (Highway's foreach_target), with AVX2 as the least. Standard headers with inline
// functions are kept out: the linker could give their AVX2 code to callers that run before the processor is checked.
//
// Elements are compared as integers, as many as a granule has keys at a time. Rows that share their elements (heads
// that a mask is broadcast over, queries with one padding mask) come one after the other and share the comparison, too.
#include "core/visibility.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/visibility.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attend::core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kGranule = 64;

// A bit for each of 64 elements: whether it is `excluded`. Every byte of the result is stored: GCC 12 loses the zeros
// of a word that is set to 0 and stored into in part (seen at -O1 with the thread sanitizer).
template <typename Bits>
HWY_INLINE uint64_t FindEqual(const Bits* elements, Bits excluded) {
  const hn::ScalableTag<Bits> d;
  constexpr int kLanesPerByte = 8;
  static_assert(hn::MaxLanes(hn::ScalableTag<Bits>()) % kLanesPerByte == 0, "a vector's bits fill whole bytes");
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto wanted = hn::Set(d, excluded);
  uint8_t bytes[kGranule / kLanesPerByte];
  for (int x = 0; x < kGranule; x += lanes) {
    hn::StoreMaskBits(d, hn::Eq(hn::LoadU(d, elements + x), wanted), bytes + x / kLanesPerByte);
  }
  uint64_t found = 0;
  memcpy(&found, bytes, sizeof(found));
  return found;
}

// The keys of a row that are to be excluded, a word per granule.
template <typename Bits>
HWY_INLINE void FindExcluded(const Bits* elements, const TileTensor& tensor, Bits excluded, uint64_t* words) {
  for (int g = 0; g < kBlockGranules; ++g) {
    const int left = tensor.keys - g * kGranule;
    if (!tensor.per_key) {
      words[g] = *elements == excluded ? ~uint64_t{0} : 0;
    } else if (left >= kGranule) {
      words[g] = FindEqual(elements + g * kGranule, excluded);
    } else if (left > 0) {
      Bits rest[kGranule];
      memcpy(rest, elements + g * kGranule, static_cast<size_t>(left) * sizeof(Bits));
      words[g] = FindEqual(rest, excluded) & ((uint64_t{1} << left) - 1);
    } else {
      words[g] = 0;
    }
  }
}

template <typename Bits>
HWY_INLINE void Exclude(const TileTensor& tensor, Bits excluded, int rows, uint64_t* visible) {
  uint64_t words[kBlockGranules] = {};
  const void* found_in = nullptr;
  for (int i = 0; i < rows; ++i, visible += kBlockGranules) {
    if (tensor.rows[i] != found_in) {
      found_in = tensor.rows[i];
      FindExcluded(static_cast<const Bits*>(found_in), tensor, excluded, words);
    }
    for (int g = 0; g < kBlockGranules; ++g) visible[g] &= ~words[g];
  }
}

void ExcludeZeros(const TileTensor& mask, int rows, uint64_t* visible) { Exclude<uint8_t>(mask, 0, rows, visible); }

void ExcludeMinusInfinity(const TileTensor& bias, int rows, uint64_t* visible) {
  switch (bias.type) {
    case ElementType::kFloat32:
      return Exclude<uint32_t>(bias, 0xff800000u, rows, visible);
    case ElementType::kBFloat16:
      return Exclude<uint16_t>(bias, 0xff80u, rows, visible);
    case ElementType::kFloat16:
      return Exclude<uint16_t>(bias, 0xfc00u, rows, visible);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::core {
namespace {

HWY_EXPORT(ExcludeZeros);
HWY_EXPORT(ExcludeMinusInfinity);

// Bits [0, count), for a count that may lie outside of the word.
uint64_t LowBits(int count) {
  if (count <= 0) return 0;
  return count >= kKeyGranule ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace

void SeeRange(int begin, int end, uint64_t* words) {
  for (int g = 0; g < kBlockGranules; ++g) {
    words[g] = LowBits(end - g * kKeyGranule) & ~LowBits(begin - g * kKeyGranule);
  }
}

void ExcludeFalse(const TileTensor& mask, int rows, uint64_t* visible) {
  HWY_DYNAMIC_DISPATCH(ExcludeZeros)(mask, rows, visible);
}

void ExcludeInfinite(const TileTensor& bias, int rows, uint64_t* visible) {
  HWY_DYNAMIC_DISPATCH(ExcludeMinusInfinity)(bias, rows, visible);
}

}  // namespace attend::core
#endif  // HWY_ONCE
