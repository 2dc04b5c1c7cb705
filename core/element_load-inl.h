// Elements of any type as vectors of floats. Included once per instruction set, inside of the files that Highway
// compiles so: no include guard of the usual kind.
#if defined(ATTEND_CORE_ELEMENT_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_CORE_ELEMENT_LOAD_INL_H_
#undef ATTEND_CORE_ELEMENT_LOAD_INL_H_
#else
#define ATTEND_CORE_ELEMENT_LOAD_INL_H_
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <hwy/highway.h>

#include "core/element_type.h"

HWY_BEFORE_NAMESPACE();
namespace attend::core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Element types as Highway names them; bits are what lies in memory.
struct Float32 {
  using Bits = float;
};
struct BFloat16 {
  using Bits = uint16_t;
};
struct Float16 {
  using Bits = uint16_t;
};
// The nearest bfloat16 of each.
struct RoundedFloat32 {
  using Bits = float;
};

// Returns use(type) with the element type's name.
template <class Use>
HWY_INLINE auto WithElementType(ElementType type, const Use& use) {
  switch (type) {
    case ElementType::kBFloat16:
      return use(BFloat16());
    case ElementType::kFloat16:
      return use(Float16());
    case ElementType::kFloat32:
      break;
  }
  return use(Float32());
}

// Likewise, where elements of type f32 may be read as rounded.
template <class Use>
HWY_INLINE auto WithElementType(ElementType type, bool rounded, const Use& use) {
  if (rounded && type == ElementType::kFloat32) return use(RoundedFloat32());
  return WithElementType(type, use);
}

// As many elements as D has lanes, as floats.
template <class D>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, Float32, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, BFloat16, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> half;
  const hn::RebindToUnsigned<D> whole;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(whole, hn::LoadU(half, from))));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, Float16, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> bits;
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(bits, from)));
}

template <class D>
HWY_INLINE hn::Vec<D> CanonicalNan(D d, hn::Vec<D> v) {
  return hn::IfThenElse(hn::Eq(v, v), v, hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7fc00000u)));
}

// The bfloat16 that is nearest to each, ties to even, in the upper halves; the lower ones mean nothing. By hand:
// Highway's own conversion truncates. NaN are quietened first, so that rounding up cannot carry them away.
template <class D>
HWY_INLINE auto NearestBFloat16(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> whole;
  const auto bits = hn::BitCast(whole, CanonicalNan(d, v));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(whole, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7fffu)));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, RoundedFloat32, const float* from) {
  const hn::RebindToUnsigned<D> whole;
  return hn::BitCast(d, hn::And(NearestBFloat16(d, hn::LoadU(d, from)), hn::Set(whole, 0xffff0000u)));
}

// The first `count` lanes from memory, zeros after them. Reads no further.
template <class D, class Type>
HWY_INLINE hn::Vec<D> LoadSome(D d, Type type, const typename Type::Bits* from, size_t count) {
  HWY_ALIGN typename Type::Bits lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  memcpy(lanes, from, count * sizeof(lanes[0]));
  return LoadAsFloat(d, type, lanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#endif  // per target
