// Compiled once per instruction set (Highway's foreach_target), with AVX2 as the least. Standard headers with inline
// functions are kept out: the linker could give their AVX2 code to callers that run before the processor is checked.
//
// Keys are transposed 4 x 4 elements at a time whatever the vector length: that is well under one per cent of the time
// of the products that read them, and needs no code per target.
#include "core/packing.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/packing.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include "core/element_load-inl.h"
#include "core/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace attend::core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Type>
void ConvertRow(Type type, const typename Type::Bits* from, size_t dim, size_t padded_dim, float* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t x = 0;
  for (; x + lanes <= dim; x += lanes) hn::StoreU(LoadAsFloat(d, type, from + x), d, to + x);
  if (x < dim) {
    HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(LoadSome(d, type, from + x, dim - x), d, rest);
    memcpy(to + x, rest, (dim - x) * sizeof(float));
  }
  if (dim < padded_dim) memset(to + dim, 0, (padded_dim - dim) * sizeof(float));
}

template <class Type>
void ConvertRows(Type type, const SourceRows& rows, size_t padded_dim, float* out) {
  for (int64_t i = 0; i < rows.count; ++i) {
    ConvertRow(type, static_cast<const typename Type::Bits*>(rows.row(i)), rows.dim, padded_dim, out + i * padded_dim);
  }
}

void RowsToFloat(const SourceRows& rows, int padded_dim, float* out) {
  return WithElementType(rows.type, rows.rounded,
                         [&](auto type) HWY_ATTR { return ConvertRows(type, rows, padded_dim, out); });
}

// Four keys' elements dim..dim+3 (`count` of them there, zeros beyond) to four rows of the panel.
template <class Type>
HWY_INLINE void Transpose4x4(Type type, const typename Type::Bits* const keys[4], size_t count, size_t stride,
                             float* out) {
  const hn::CappedTag<float, 4> d;
  const auto load = [&](const typename Type::Bits* key)
                        HWY_ATTR { return count == 4 ? LoadAsFloat(d, type, key) : LoadSome(d, type, key, count); };
  const auto k0 = load(keys[0]);
  const auto k1 = load(keys[1]);
  const auto k2 = load(keys[2]);
  const auto k3 = load(keys[3]);
  const auto low02 = hn::InterleaveLower(d, k0, k2);
  const auto low13 = hn::InterleaveLower(d, k1, k3);
  const auto high02 = hn::InterleaveUpper(d, k0, k2);
  const auto high13 = hn::InterleaveUpper(d, k1, k3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, out);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, out + stride);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, out + 2 * stride);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, out + 3 * stride);
}

// Sixteen keys at a time: one cache line of each row of the panel.
template <class Type>
// NOLINTNEXTLINE(readability-function-size): the panel in five numbers, a struct of them would be written once
void TransposeKeys(Type type, const SourceRows& rows, size_t padded_count, size_t stride, float* out) {
  constexpr size_t kLine = 16;
  static constexpr typename Type::Bits kZeros[4] = {};
  const size_t dim = rows.dim;
  const size_t count = rows.count;
  for (size_t line = 0; line < padded_count; line += kLine) {
    for (size_t x = 0; x < dim; x += 4) {
      for (size_t j = line; j < line + kLine; j += 4) {
        const typename Type::Bits* keys[4];
        for (size_t k = 0; k < 4; ++k) {
          keys[k] = j + k < count ? static_cast<const typename Type::Bits*>(rows.row(j + k)) + x : kZeros;
        }
        Transpose4x4(type, keys, dim - x < 4 ? dim - x : 4, stride, out + x * stride + j);
      }
    }
  }
}

void KeysToFloatPanel(const SourceRows& rows, int padded_count, int stride, float* out) {
  return WithElementType(rows.type,
                         [&](auto type) HWY_ATTR { return TransposeKeys(type, rows, padded_count, stride, out); });
}

// x - x is 0 for finite numbers and NaN for all others.
template <class Type>
bool RowsAreFinite(Type type, const SourceRows& rows) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t dim = rows.dim;
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < rows.count; ++i) {
    const auto* row = static_cast<const typename Type::Bits*>(rows.row(i));
    size_t x = 0;
    for (; x + lanes <= dim; x += lanes) {
      const auto v = LoadAsFloat(d, type, row + x);
      sum = hn::Add(sum, hn::Sub(v, v));
    }
    if (x < dim) {
      const auto v = LoadSome(d, type, row + x, dim - x);
      sum = hn::Add(sum, hn::Sub(v, v));
    }
  }
  return hn::AllTrue(d, hn::Eq(sum, hn::Zero(d)));
}

bool FiniteRows(const SourceRows& rows) {
  return WithElementType(rows.type, rows.rounded, [&](auto type) HWY_ATTR { return RowsAreFinite(type, rows); });
}

void Expand(const uint16_t* from, size_t count, float* to) { ConvertRow(BFloat16(), from, count, count, to); }

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::core {
namespace {

HWY_EXPORT(RowsToFloat);
HWY_EXPORT(KeysToFloatPanel);
HWY_EXPORT(FiniteRows);
HWY_EXPORT(Expand);

// The longest row: kMaxHeadDim of core/attention_problem.h, whose headers have no place here.
constexpr int kMaxRowDim = 1024;

// Row i as bf16: where it lies, or rounded to `rounded`.
const uint16_t* HalfRow(const SourceRows& rows, int64_t i, uint16_t* rounded) {
  if (rows.type == ElementType::kBFloat16) return static_cast<const uint16_t*>(rows.row(i));
  RoundToBFloat16(static_cast<const float*>(rows.row(i)), rows.dim, rounded);
  return rounded;
}

void CopyHalfRows(const SourceRows& rows, int padded_dim, uint16_t* out) {
  const size_t bytes = static_cast<size_t>(rows.dim) * sizeof(uint16_t);
  for (int64_t i = 0; i < rows.count; ++i, out += padded_dim) {
    const uint16_t* row = HalfRow(rows, i, out);
    if (row != out) memcpy(out, row, bytes);
    memset(out + rows.dim, 0, static_cast<size_t>(padded_dim) * sizeof(uint16_t) - bytes);
  }
}

void TransposeHalfKeys(const SourceRows& rows, int padded_count, int stride, uint16_t* out) {
  uint16_t rounded[kMaxRowDim];
  for (int j = 0; j < padded_count; ++j) {
    const uint16_t* key = j < rows.count ? HalfRow(rows, j, rounded) : nullptr;
    for (int x = 0; x < rows.dim; ++x) out[static_cast<size_t>(x) * stride + j] = key == nullptr ? 0 : key[x];
  }
}

}  // namespace

void PackRows(const SourceRows& rows, int padded_dim, int64_t padded_count, ProductType to, void* out) {
  if (to == ProductType::kFloat32) {
    HWY_DYNAMIC_DISPATCH(RowsToFloat)(rows, padded_dim, static_cast<float*>(out));
  } else {
    CopyHalfRows(rows, padded_dim, static_cast<uint16_t*>(out));
  }
  const int64_t row_bytes = padded_dim * ProductBytes(to);
  if (padded_count > rows.count) {
    memset(static_cast<char*>(out) + rows.count * row_bytes, 0, (padded_count - rows.count) * row_bytes);
  }
}

// NOLINTNEXTLINE(readability-function-size): as declared, one argument more than the rule has
void PackKeyPanel(const SourceRows& rows, int padded_dim, int padded_count, const KeyPanels& panels, ProductType to,
                  void* out) {
  if (to == ProductType::kFloat32) {
    HWY_DYNAMIC_DISPATCH(KeysToFloatPanel)(rows, padded_count, panels.row_stride, static_cast<float*>(out));
  } else {
    TransposeHalfKeys(rows, padded_count, panels.row_stride, static_cast<uint16_t*>(out));
  }
  // Rows that Transpose4x4 wrote beyond rows.dim are zeros already; writing them again is simpler than knowing it.
  const int64_t row_bytes = panels.row_stride * ProductBytes(to);
  for (int x = rows.dim; x < padded_dim; ++x) {
    memset(static_cast<char*>(out) + x * row_bytes, 0, padded_count * ProductBytes(to));
  }
}

bool AllFinite(const SourceRows& rows) { return HWY_DYNAMIC_DISPATCH(FiniteRows)(rows); }

void ExpandBFloat16(const uint16_t* from, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(Expand)(from, static_cast<size_t>(count), to);
}

}  // namespace attend::core
#endif  // HWY_ONCE
