// Compiled once per instruction set (Highway's foreach_target), with AVX2 as the least. Standard headers with inline
// functions are kept out: the linker could give their AVX2 code to callers that run before the processor is checked.
#include "core/softmax.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/softmax.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include "core/element_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

constexpr float kLog2e = 1.44269504088896341f;
constexpr float kInfinity = __builtin_inff();
// The maximum moves when it would grow by more than this: 8 binary orders of magnitude.
constexpr float kSlack = 5.5451774444795623f;
// Scores are taken two vectors at a time, each with an accumulator of its own: a granule of 64 keys is a whole number
// of such pairs for vectors of up to 32 lanes. More accumulators would be spilled and gain nothing: arithmetic bounds
// this.
constexpr int kGranule = 64;
constexpr uint64_t kAll = ~uint64_t{0};
constexpr int kMaxLanes = HWY_MAX_BYTES / sizeof(float);

// 2^x for x at most 100: relative error 1e-7, exact for integers, 0 below 2^-126, NaN for NaN. Adding 1.5 * 2^23 + 127
// rounds x to an integer and leaves that integer's biased exponent in the low bits. The clamp at -127 makes exponent
// bits of 0, a factor of 0. Max takes its second operand if either is NaN.
HWY_INLINE Vector Exp2(Floats d, Vector x) {
  const hn::RebindToSigned<Floats> integers;
  const Vector magic = hn::Set(d, 12582912.0f + 127.0f);
  const Vector clamped = hn::Max(hn::Set(d, -127.0f), x);
  const Vector shifted = hn::Add(clamped, magic);
  const Vector fraction = hn::Sub(clamped, hn::Sub(shifted, magic));
  Vector p = hn::Set(d, 1.3264728477224708e-3f);
  p = hn::MulAdd(p, fraction, hn::Set(d, 9.671513922512531e-3f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 5.550733581185341e-2f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 2.4022242426872253e-1f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 6.931470036506653e-1f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, shifted))));
}

// The scores of one row, read a vector at a time. In a granule of which it sees a part (kCut), the other keys read as
// -inf.
struct Row {
  float* scores;
  const uint64_t* visible;  // null if it sees all
  float scale;

  template <bool kCut>
  HWY_INLINE Vector Masked(Floats d, Vector v, int x) const {
    return kCut ? hn::IfThenElse(MaskOf(d, x), v, hn::Set(d, -kInfinity)) : v;
  }
  // Words are little-endian: bit x lies in byte x / 8.
  HWY_INLINE hn::Mask<Floats> MaskOf(Floats d, int x) const {
    return hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(visible) + x / 8);
  }
  HWY_INLINE uint64_t word(int x) const { return visible[x / kGranule]; }
  HWY_INLINE Vector Scaled(Floats d, int x) const { return hn::Mul(hn::Load(d, scores + x), hn::Set(d, scale)); }
  // exp(scale * score - subtracted), the subtraction before the multiplication by log2(e): scores up to the largest
  // float are ordinary. The scaled score is rounded as the maximum was: the exact product that a fused operation would
  // take differs from it by an exponent's worth where scores are large. (The build forbids the compiler to fuse, too.)
  template <bool kCut>
  HWY_INLINE Vector Exponential(Floats d, int x, Vector subtracted) const {
    return Exp2(d, hn::Mul(Masked<kCut>(d, hn::Sub(Scaled(d, x), subtracted), x), hn::Set(d, kLog2e)));
  }
};

Row RowOf(const ScoresTile& tile, int i) {
  return {tile.scores + static_cast<size_t>(i) * tile.keys,
          tile.visible == nullptr ? nullptr : tile.visible + i * kBlockGranules, tile.scale};
}

struct Pair {
  Vector even, odd;
};

// Of scores that are yet to be scaled. Max takes its second operand if either is NaN: the maximum so far.
template <bool kCut>
HWY_INLINE void RaiseMaximum(Floats d, const Row row, int begin, int end, Pair& top) {
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int x = begin; x < end; x += 2 * lanes) {
    top.even = hn::Max(row.Masked<kCut>(d, hn::Load(d, row.scores + x), x), top.even);
    top.odd = hn::Max(row.Masked<kCut>(d, hn::Load(d, row.scores + x + lanes), x + lanes), top.odd);
  }
}

template <bool kCut>
// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void Exponentiate(Floats d, const Row row, int begin, int end, Vector subtracted, Pair& sums) {
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int x = begin; x < end; x += 2 * lanes) {
    const Vector even = row.Exponential<kCut>(d, x, subtracted);
    const Vector odd = row.Exponential<kCut>(d, x + lanes, subtracted);
    sums.even = hn::Add(sums.even, even);
    sums.odd = hn::Add(sums.odd, odd);
    hn::Store(even, d, row.scores + x);
    hn::Store(odd, d, row.scores + x + lanes);
  }
}

HWY_INLINE float ExpOf(Floats d, float x) { return hn::GetLane(Exp2(d, hn::Set(d, x * kLog2e))); }

// Both passes over a row, granule by granule where it does not see all: those that it sees nothing of are left out, and
// the second pass makes their weights 0.
HWY_INLINE void FindMaximum(Floats d, const Row row, int keys, Pair& top) {
  if (row.visible == nullptr) return RaiseMaximum<false>(d, row, 0, keys, top);
  for (int x = 0; x < keys; x += kGranule) {
    const uint64_t word = row.word(x);
    if (word == 0) continue;
    if (word == kAll) {
      RaiseMaximum<false>(d, row, x, x + kGranule, top);
    } else {
      RaiseMaximum<true>(d, row, x, x + kGranule, top);
    }
  }
}

// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void WeighKeys(Floats d, const Row row, int keys, Vector subtracted, Pair& sums) {
  if (row.visible == nullptr) return Exponentiate<false>(d, row, 0, keys, subtracted, sums);
  for (int x = 0; x < keys; x += kGranule) {
    const uint64_t word = row.word(x);
    if (word == 0) {
      memset(row.scores + x, 0, kGranule * sizeof(float));
    } else if (word == kAll) {
      Exponentiate<false>(d, row, x, x + kGranule, subtracted, sums);
    } else {
      Exponentiate<true>(d, row, x, x + kGranule, subtracted, sums);
    }
  }
}

// `row.scale` is positive, so that the largest score is the largest scaled score.
HWY_INLINE void UpdateRow(const Row row, int keys, float& maximum, float& sum, float& correction) {
  const Floats d;
  correction = 1;
  const Vector least = hn::Set(d, -kInfinity);
  Pair top = {least, least};
  FindMaximum(d, row, keys, top);
  const float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(top.even, top.odd))) * row.scale;
  if (largest > maximum + kSlack) {
    correction = ExpOf(d, maximum - largest);
    maximum = largest;
  }

  const Vector subtracted = hn::Set(d, maximum == -kInfinity ? 0 : maximum);
  Pair sums = {hn::Zero(d), hn::Zero(d)};
  WeighKeys(d, row, keys, subtracted, sums);
  sum = sum * correction + hn::GetLane(hn::SumOfLanes(d, hn::Add(sums.even, sums.odd)));
}

// Scales the scores at once where they are in another order than the scaled ones.
HWY_INLINE float MakeScalePositive(const ScoresTile& tile) {
  if (tile.scale > 0) return tile.scale;
  const Floats d;
  const int count = tile.rows * tile.keys;
  for (int x = 0; x < count; x += static_cast<int>(hn::Lanes(d))) {
    hn::Store(hn::Mul(hn::Load(d, tile.scores + x), hn::Set(d, tile.scale)), d, tile.scores + x);
  }
  return 1;
}

void UpdateTile(ScoresTile tile, const RowState& state) {
  tile.scale = MakeScalePositive(tile);
  for (int i = 0; i < tile.rows; ++i) {
    UpdateRow(RowOf(tile, i), tile.keys, state.maximum[i], state.sum[i], state.correction[i]);
  }
}

void Rescale(const float* correction, int rows, int columns, float* accumulator) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < rows; ++i, accumulator += columns) {
    if (correction[i] == 1) continue;
    const Vector factor = hn::Set(d, correction[i]);
    for (int x = 0; x < columns; x += lanes) {
      hn::Store(hn::Mul(hn::Load(d, accumulator + x), factor), d, accumulator + x);
    }
  }
}

// Calls `write` with a vector for every lanes keys of a part of a row, its place in the part and how many of its lanes
// belong to it: what `number` makes of the keys that the row sees, `other` for all others.
template <class Number, class Write>
// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void ForEachVector(const ScoresTile& tile, int i, const TilePlace& place, float other, const Number& number,
                              const Write& write) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const Row row = RowOf(tile, i);
  const Vector others = hn::Set(d, other);
  for (int at = 0; at < place.width; at += lanes) {
    const int x = at - place.first;
    Vector v = others;
    const bool inside = x >= 0 && x < tile.keys;
    if (inside && row.visible == nullptr) {
      v = CanonicalNan(d, number(row, x));
    } else if (inside && row.word(x) != 0) {
      v = hn::IfThenElse(row.MaskOf(d, x), CanonicalNan(d, number(row, x)), others);
    }
    const int left = place.width - at;
    write(v, at, left < lanes ? left : lanes);
  }
}

HWY_INLINE void StoreSome(Floats d, Vector v, int count, float* to) {
  if (count == static_cast<int>(hn::Lanes(d))) return hn::StoreU(v, d, to);
  HWY_ALIGN float rest[kMaxLanes];
  hn::Store(v, d, rest);
  memcpy(to, rest, static_cast<size_t>(count) * sizeof(float));
}

HWY_INLINE Vector LoadSome(Floats d, const float* from, int count) {
  if (count == static_cast<int>(hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN float rest[kMaxLanes] = {};
  memcpy(rest, from, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(d, rest);
}

void WeightsTile(const ScoresTile& tile, const float* maximum, const float* factor, const TilePlace& place,
                 const WeightsRow* rows) {
  const Floats d;
  for (int i = 0; i < tile.rows; ++i) {
    const WeightsRow to = rows[i];
    if (to.to == nullptr) continue;
    const Vector subtracted = hn::Set(d, maximum[i]);
    const Vector factors = hn::Set(d, factor[i]);
    const Vector divisor = hn::Set(d, to.divisor);
    const auto weight = [&](const Row& row, int x)
                            HWY_ATTR { return hn::Mul(row.Exponential<false>(d, x, subtracted), factors); };
    const auto write = [&](Vector w, int at, int count) HWY_ATTR {
      if (to.add) w = hn::Add(LoadSome(d, to.to + at, count), w);
      if (to.divisor != 1) w = hn::Div(w, divisor);
      StoreSome(d, w, count, to.to + at);
    };
    ForEachVector(tile, i, place, 0, weight, write);
  }
}

void ScoresOfTile(const ScoresTile& tile, const TilePlace& place, float* const* rows) {
  const Floats d;
  const auto score = [d](const Row& row, int x) HWY_ATTR { return row.Scaled(d, x); };
  for (int i = 0; i < tile.rows; ++i) {
    if (rows[i] == nullptr) continue;
    const auto write = [&](Vector v, int at, int count) HWY_ATTR { StoreSome(d, v, count, rows[i] + at); };
    ForEachVector(tile, i, place, -kInfinity, score, write);
  }
}

// Rounding types for StoreRounded.
struct ToFloat32 {
  using Bits = float;
};
struct ToBFloat16 {
  using Bits = uint16_t;
};
struct ToFloat16 {
  using Bits = uint16_t;
};

HWY_INLINE void StoreRounded(ToFloat32, Floats d, Vector v, float* to) { hn::StoreU(v, d, to); }

HWY_INLINE void StoreRounded(ToBFloat16, Floats d, Vector v, uint16_t* to) {
  const hn::RebindToSigned<Floats> whole_signed;
  const hn::Rebind<uint16_t, Floats> half;
  const auto rounded = hn::ShiftRight<16>(NearestBFloat16(d, v));
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(whole_signed, rounded)), half, to);
}

HWY_INLINE void StoreRounded(ToFloat16, Floats d, Vector v, uint16_t* to) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  const hn::Rebind<uint16_t, Floats> bits;
  (void)d;
  hn::StoreU(hn::BitCast(bits, hn::DemoteTo(half, v)), bits, to);
}

// -0 becomes +0.
HWY_INLINE Vector Canonical(Floats d, Vector v) { return hn::Add(CanonicalNan(d, v), hn::Zero(d)); }

// Whether all products are finite: only then their differences from themselves are, and add up to, 0.
template <class To>
bool ScaleRow(To type, const float* from, size_t count, float factor, typename To::Bits* to) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const Vector factors = hn::Set(d, factor);
  Vector differences = hn::Zero(d);
  size_t x = 0;
  for (; x + lanes <= count; x += lanes) {
    const Vector v = hn::Mul(hn::LoadU(d, from + x), factors);
    differences = hn::Add(differences, hn::Sub(v, v));
    StoreRounded(type, d, Canonical(d, v), to + x);
  }
  if (x < count) {
    HWY_ALIGN float tail[kMaxLanes] = {};
    HWY_ALIGN typename To::Bits rounded[kMaxLanes];
    memcpy(tail, from + x, (count - x) * sizeof(float));
    const Vector v = hn::Mul(hn::Load(d, tail), factors);
    // The lanes beyond the row: 0 times a factor that is not finite is no business of the row's.
    differences = hn::Add(differences, hn::IfThenElseZero(hn::FirstN(d, count - x), hn::Sub(v, v)));
    StoreRounded(type, d, Canonical(d, v), rounded);
    memcpy(to + x, rounded, (count - x) * sizeof(rounded[0]));
  }
  return hn::AllTrue(d, hn::Eq(differences, hn::Zero(d)));
}

bool RowToFloat32(const float* from, size_t count, float factor, float* to) {
  return ScaleRow(ToFloat32(), from, count, factor, to);
}
bool RowToBFloat16(const float* from, size_t count, float factor, uint16_t* to) {
  return ScaleRow(ToBFloat16(), from, count, factor, to);
}
bool RowToFloat16(const float* from, size_t count, float factor, uint16_t* to) {
  return ScaleRow(ToFloat16(), from, count, factor, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::core {
namespace {

HWY_EXPORT(UpdateTile);
HWY_EXPORT(Rescale);
HWY_EXPORT(WeightsTile);
HWY_EXPORT(ScoresOfTile);
HWY_EXPORT(RowToFloat32);
HWY_EXPORT(RowToBFloat16);
HWY_EXPORT(RowToFloat16);

}  // namespace

void UpdateSoftmax(const ScoresTile& tile, const RowState& state) { HWY_DYNAMIC_DISPATCH(UpdateTile)(tile, state); }

void RescaleRows(const float* correction, int rows, int columns, float* accumulator) {
  HWY_DYNAMIC_DISPATCH(Rescale)(correction, rows, columns, accumulator);
}

void WriteWeights(const ScoresTile& tile, const float* maximum, const float* factor, const TilePlace& place,
                  const WeightsRow* rows) {
  HWY_DYNAMIC_DISPATCH(WeightsTile)(tile, maximum, factor, place, rows);
}

void WriteScores(const ScoresTile& tile, const TilePlace& place, float* const* rows) {
  HWY_DYNAMIC_DISPATCH(ScoresOfTile)(tile, place, rows);
}

void RoundToBFloat16(const float* from, int64_t count, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(RowToBFloat16)(from, static_cast<size_t>(count), 1.0f, to);
}

bool WriteScaledRow(const float* from, int count, float factor, ElementType type, void* to) {
  const auto n = static_cast<size_t>(count);
  switch (type) {
    case ElementType::kFloat32:
      return HWY_DYNAMIC_DISPATCH(RowToFloat32)(from, n, factor, static_cast<float*>(to));
    case ElementType::kBFloat16:
      return HWY_DYNAMIC_DISPATCH(RowToBFloat16)(from, n, factor, static_cast<uint16_t*>(to));
    case ElementType::kFloat16:
      return HWY_DYNAMIC_DISPATCH(RowToFloat16)(from, n, factor, static_cast<uint16_t*>(to));
  }
  return true;  // no other type
}

}  // namespace attend::core
#endif  // HWY_ONCE
