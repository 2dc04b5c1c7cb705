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

// As many elements as D has lanes, as floats. Exact.
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
