// Compiled once per instruction set (Highway's foreach_target), with AVX2 as the least. Standard headers with inline
// functions are kept out: the linker could give their AVX2 code to callers that run before the processor is checked.
#include "core/score_transform.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/score_transform.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>
#include "core/element_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

constexpr int kGranule = 64;

// Replaces each scaled score of the granules that row i sees something of by what `change` makes of it and of its key's
// place in the tile.
template <class Change>
HWY_INLINE void ChangeRow(const ScoresTile& tile, int i, const Change& change) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const Vector scale = hn::Set(d, tile.scale);
  float* const scores = tile.scores + static_cast<size_t>(i) * tile.keys;
  const uint64_t* const visible = tile.visible == nullptr ? nullptr : tile.visible + i * kBlockGranules;
  for (int first = 0; first < tile.keys; first += kGranule) {
    if (visible != nullptr && visible[first / kGranule] == 0) continue;
    for (int x = first; x < first + kGranule; x += lanes) {
      hn::Store(change(hn::Mul(hn::Load(d, scores + x), scale), x), d, scores + x);
    }
  }
}

// Near 0 the cap changes nothing that a float shows, and score / softcap may underflow. NaN take that way, too.
void Cap(float softcap, const ScoresTile& tile) {
  const Floats d;
  const Vector cap = hn::Set(d, softcap);
  const Vector small = hn::Set(d, 1.0f / 4096);
  const auto change = [&](Vector score, int) HWY_ATTR {
    const Vector ratio = hn::Div(score, cap);
    return hn::IfThenElse(hn::Ge(hn::Abs(ratio), small), hn::Mul(cap, hn::Tanh(d, ratio)), score);
  };
  for (int i = 0; i < tile.rows; ++i) ChangeRow(tile, i, change);
}

template <class Type>
void AddElements(Type type, const TileTensor& bias, const ScoresTile& tile) {
  using Bits = typename Type::Bits;
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < tile.rows; ++i) {
    const auto* elements = static_cast<const Bits*>(bias.rows[i]);
    if (bias.per_key) {
      ChangeRow(tile, i, [&](Vector score, int x) HWY_ATTR {
        const int left = bias.keys - x;
        if (left >= lanes) return hn::Add(score, LoadAsFloat(d, type, elements + x));
        return left <= 0 ? score : hn::Add(score, LoadSome(d, type, elements + x, static_cast<size_t>(left)));
      });
    } else {
      const Vector all = hn::Set(d, hn::GetLane(LoadSome(d, type, elements, 1)));
      ChangeRow(tile, i, [&](Vector score, int) HWY_ATTR { return hn::Add(score, all); });
    }
  }
}

void AddTensor(const TileTensor& bias, const ScoresTile& tile) {
  return WithElementType(bias.type, [&](auto type) HWY_ATTR { return AddElements(type, bias, tile); });
}

// |position - x| for a vector of keys from x on. Floats count exactly up to 2^24; further away each distance is rounded
// on its own, which costs time that only sequences of millions spend.
HWY_INLINE Vector Distances(Floats d, int64_t position, int x) {
  constexpr int64_t kNear = int64_t{1} << 23;
  if (position > -kNear && position < kNear) {
    return hn::Abs(hn::Sub(hn::Set(d, static_cast<float>(position)), hn::Iota(d, static_cast<float>(x))));
  }
  HWY_ALIGN float distances[HWY_MAX_BYTES / sizeof(float)];
  for (size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    const double distance = static_cast<double>(position) - (static_cast<double>(x) + static_cast<double>(lane));
    distances[lane] = static_cast<float>(distance < 0 ? -distance : distance);
  }
  return hn::Load(d, distances);
}

void SubtractDistances(const TileSlopes& slopes, const ScoresTile& tile) {
  const Floats d;
  for (int i = 0; i < tile.rows; ++i) {
    const Vector slope = hn::Set(d, slopes.slopes[i]);
    const int64_t position = slopes.positions[i];
    ChangeRow(tile, i,
              [&](Vector score, int x) HWY_ATTR { return hn::Sub(score, hn::Mul(slope, Distances(d, position, x))); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::core {
namespace {

HWY_EXPORT(Cap);
HWY_EXPORT(AddTensor);
HWY_EXPORT(SubtractDistances);

}  // namespace

void CapScores(float softcap, ScoresTile& tile) {
  HWY_DYNAMIC_DISPATCH(Cap)(softcap, tile);
  tile.scale = 1;
}

void AddBias(const TileTensor& bias, ScoresTile& tile) {
  HWY_DYNAMIC_DISPATCH(AddTensor)(bias, tile);
  tile.scale = 1;
}

void AddDistances(const TileSlopes& slopes, ScoresTile& tile) {
  HWY_DYNAMIC_DISPATCH(SubtractDistances)(slopes, tile);
  tile.scale = 1;
}

}  // namespace attend::core
#endif  // HWY_ONCE
