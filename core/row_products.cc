// Compiled once per instruction set (Highway's foreach_target), with AVX2 as the least. Standard headers with inline
// functions are kept out: the linker could give their AVX2 code to callers that run before the processor is checked.
//
// Both products hold a small block of their result in registers: scores of some keys by some rows, whose vectors of
// partial sums are added up at the end, or sums of some rows in some columns. Each loaded vector is used for all rows
// of the block.
//
// bfloat16 is read 32 bits at a time, which are two elements: the even ones by a shift, the odd ones by a mask, half of
// what it costs to bring them into order first. Queries are expanded in the same order, and sums restored from it.
#include "core/row_products.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/row_products.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include "core/element_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend::core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
using Quad = hn::Vec<hn::Full128<float>>;

constexpr int kLanes = hn::MaxLanes(Floats());
constexpr int kPair = 2 * kLanes;
static_assert(ExpandedDim(1) % kPair == 0, "an expanded row has whole pairs of vectors");
constexpr int kKeysAtOnce = 4;
// Registers: 16 or 32. A block of scores takes rows * 4 of them and two for each row, a block of sums rows * 2 * pairs.
constexpr bool kManyRegisters = hn::MaxLanes(Floats()) >= 16;
constexpr int kScoreRows = kManyRegisters ? 4 : 2;
constexpr int kSumRows = kManyRegisters ? 8 : 4;
constexpr int kSums = kManyRegisters ? 16 : 8;
// Keys that a block of sums takes before it is stored: their values stay in the first-level cache for the other blocks.
constexpr int64_t kSumKeys = 32;

// Elements [x, x + kPair) in expanded order.
template <class Type>
HWY_INLINE void LoadPair(Type type, const typename Type::Bits* from, Vector& first, Vector& second) {
  const Floats d;
  first = LoadAsFloat(d, type, from);
  second = LoadAsFloat(d, type, from + kLanes);
}
HWY_INLINE void LoadPair(BFloat16, const uint16_t* from, Vector& first, Vector& second) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> words;
  const hn::Repartition<uint16_t, Floats> halves;
  const auto both = hn::BitCast(words, hn::LoadU(halves, from));
  first = hn::BitCast(d, hn::ShiftLeft<16>(both));
  second = hn::BitCast(d, hn::And(both, hn::Set(words, 0xffff0000u)));
}

// The rest of a row after its pairs: a whole vector if there is one, and the last elements. These are the upper lanes
// of a vector that ends with the row, or, in a row that is shorter than a vector, the lower ones.
template <class Type>
HWY_INLINE Vector LoadLast(Type type, const typename Type::Bits* row, int dim) {
  const Floats d;
  if (dim < kLanes) return LoadSome(d, type, row, static_cast<size_t>(dim));
  const Vector last = LoadAsFloat(d, type, row + dim - kLanes);
  return hn::IfThenZeroElse(hn::FirstN(d, static_cast<size_t>(kLanes - dim % kLanes)), last);
}

// Calls pair(x) for each pair, then single(x, load) for the vectors after them, where x is their place in an expanded
// row and load(row) reads them.
template <class Type, class Pair, class Single>
HWY_INLINE void ForEachVector(Type type, int dim, const Pair& pair, const Single& single) {
  const Floats d;
  using Bits = typename Type::Bits;
  int x = 0;
  for (; x + kPair <= dim; x += kPair) pair(x);
  if (x + kLanes <= dim) {
    single(x, [=](const Bits* row) HWY_ATTR { return LoadAsFloat(d, type, row + x); });
    x += kLanes;
  }
  if (x < dim) single(x, [=](const Bits* row) HWY_ATTR { return LoadLast(type, row, dim); });
}

template <class Type>
void Expand(Type type, const typename Type::Bits* from, int dim, float* to) {
  const Floats d;
  const auto pair = [&](int x) HWY_ATTR {
    Vector first, second;
    LoadPair(type, from + x, first, second);
    hn::StoreU(first, d, to + x);
    hn::StoreU(second, d, to + x + kLanes);
  };
  ForEachVector(type, dim, pair, [&](int x, const auto& load) HWY_ATTR { hn::StoreU(load(from), d, to + x); });
}

void ExpandElements(const void* from, int dim, ElementType type, float* to) {
  switch (type) {
    case ElementType::kFloat32:
      return Expand(Float32(), static_cast<const float*>(from), dim, to);
    case ElementType::kBFloat16:
      return Expand(BFloat16(), static_cast<const uint16_t*>(from), dim, to);
    case ElementType::kFloat16:
      return Expand(Float16(), static_cast<const uint16_t*>(from), dim, to);
  }
}

void Restore(const float* from, int dim, ElementType type, float* to) {
  int x = 0;
  for (; x + kPair <= dim; x += kPair) {
    if (type == ElementType::kBFloat16) {
      for (int i = 0; i < kLanes; ++i) {
        to[x + 2 * i] = from[x + i];
        to[x + 2 * i + 1] = from[x + kLanes + i];
      }
    } else {
      memcpy(to + x, from + x, kPair * sizeof(float));
    }
  }
  if (x + kLanes <= dim) {
    memcpy(to + x, from + x, kLanes * sizeof(float));
    x += kLanes;
  }
  if (x == dim) return;
  const int last = dim - x;
  memcpy(to + x, from + x + (dim < kLanes ? 0 : kLanes - last), static_cast<size_t>(last) * sizeof(float));
}

// Fetches rows into the second-level cache, a few cache lines at each of a number of steps: evenly, for a burst would
// keep the processor waiting, and leave the memory idle after it. The first-level cache is too small for what lies
// between fetching and reading.
class Fetcher {
 public:
  Fetcher(const SourceRows& rows, int64_t steps) {
    const int64_t bytes = rows.dim * ElementBytes(rows.type);
    stride_ = rows.stride * ElementBytes(rows.type);
    // Rows one after the other are one long row.
    const bool dense = stride_ == bytes;
    rows_ = dense && rows.count > 0 ? 1 : rows.count;
    row_bytes_ = dense ? bytes * rows.count : bytes;
    next_ = static_cast<const char*>(rows.first);
    end_ = next_ + row_bytes_;
    const int64_t lines = (row_bytes_ + kLine - 1) / kLine * rows_;
    lines_per_step_ = steps > 0 ? (lines + steps - 1) / steps : 0;
  }

  HWY_INLINE void Step() {
    for (int64_t n = lines_per_step_; n > 0 && rows_ > 0; --n) {
      __builtin_prefetch(next_, 0, kSecondLevel);
      next_ += kLine;
      if (next_ < end_) continue;
      end_ += stride_;
      next_ = end_ - row_bytes_;
      --rows_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int kSecondLevel = 2;

  int64_t rows_;
  int64_t row_bytes_;
  int64_t stride_;
  int64_t lines_per_step_;
  const char* next_;
  const char* end_;
};

template <class D>
HWY_INLINE Quad SumBlocks(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return SumBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The sums of the lanes of four vectors.
HWY_INLINE Quad SumsOfLanes(const Vector* v) {
  const Floats d;
  const Vector even = hn::Add(hn::InterleaveLower(d, v[0], v[2]), hn::InterleaveUpper(d, v[0], v[2]));
  const Vector odd = hn::Add(hn::InterleaveLower(d, v[1], v[3]), hn::InterleaveUpper(d, v[1], v[3]));
  return SumBlocks(d, hn::Add(hn::InterleaveLower(d, even, odd), hn::InterleaveUpper(d, even, odd)));
}

// A block of scores: kRows rows by kKeys keys.
template <int kRows, int kKeys, class Type>
HWY_INLINE void ScoreBlock(Type type, const float* queries, const typename Type::Bits* const* keys, int dim,
                           Vector* sums) {
  const Floats d;
  const int stride = ExpandedDim(dim);
#pragma GCC unroll 32
  for (int n = 0; n < kRows * kKeys; ++n) sums[n] = hn::Zero(d);
  const auto pair = [&](int x) HWY_ATTR {
    Vector first[kRows], second[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      first[r] = hn::LoadU(d, queries + r * stride + x);
      second[r] = hn::LoadU(d, queries + r * stride + x + kLanes);
    }
#pragma GCC unroll 16
    for (int k = 0; k < kKeys; ++k) {
      Vector key_first, key_second;
      LoadPair(type, keys[k] + x, key_first, key_second);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Vector& sum = sums[r * kKeys + k];
        sum = hn::MulAdd(second[r], key_second, hn::MulAdd(first[r], key_first, sum));
      }
    }
  };
  const auto single = [&](int x, const auto& load) HWY_ATTR {
#pragma GCC unroll 16
    for (int k = 0; k < kKeys; ++k) {
      const Vector key = load(keys[k]);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Vector& sum = sums[r * kKeys + k];
        sum = hn::MulAdd(hn::LoadU(d, queries + r * stride + x), key, sum);
      }
    }
  };
  ForEachVector(type, dim, pair, single);
}

// Rows [row, row + kRows) by all keys. The last block's missing keys are its last one again.
template <int kRows, int kKeys, class Type>
void ScoreRows(Type type, const float* queries, const SourceRows& keys, Fetcher& fetcher, const RowNumbers& scores) {
  using Bits = typename Type::Bits;
  const hn::Full128<float> quad;
  for (int64_t j = 0; j < keys.count; j += kKeys) {
    fetcher.Step();
    const Bits* rows[kKeys];
    for (int64_t k = 0; k < kKeys; ++k) {
      rows[k] = static_cast<const Bits*>(keys.row(j + k < keys.count ? j + k : keys.count - 1));
    }
    Vector sums[kRows * kKeys];
    ScoreBlock<kRows, kKeys>(type, queries, rows, keys.dim, sums);
#pragma GCC unroll 16
    for (int n = 0; n < kRows * kKeys; n += 4) {
      float* const to = scores.first + n / kKeys * scores.stride + j + n % kKeys;
      const int64_t left = keys.count - j - n % kKeys;
      const Quad four = SumsOfLanes(sums + n);
      if (left >= 4) {
        hn::StoreU(four, quad, to);
      } else if (left > 0) {
        float some[4];
        hn::StoreU(four, quad, some);
        memcpy(to, some, static_cast<size_t>(left) * sizeof(float));
      }
    }
  }
}

// Calls pass(row, rows) for rows in passes of as many as `most`, 4, 2 or 1.
template <class Pass>
HWY_INLINE void ForEachPass(int rows, int most, const Pass& pass) {
  for (int row = 0; row < rows;) {
    const int left = rows - row;
    const int count = left >= most ? most : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    pass(row, count);
    row += count;
  }
}

template <class Type>
void Score(Type type, const float* queries, const SourceRows& keys, const SourceRows& following,
           const RowNumbers& scores) {
  const int stride = ExpandedDim(keys.dim);
  constexpr int kKeysOfOne = 2 * kKeysAtOnce;
  int64_t steps = 0;
  ForEachPass(scores.rows, kScoreRows, [&](int, int rows) {
    const int at_once = rows == 1 ? kKeysOfOne : kKeysAtOnce;
    steps += (keys.count + at_once - 1) / at_once;
  });
  Fetcher fetcher(following, steps);
  ForEachPass(scores.rows, kScoreRows, [&](int row, int rows) {
    const float* const some = queries + row * stride;
    const RowNumbers to = {.first = scores.first + row * scores.stride, .stride = scores.stride, .rows = rows};
    if (rows == kScoreRows) return ScoreRows<kScoreRows, kKeysAtOnce>(type, some, keys, fetcher, to);
    if (rows == 2) return ScoreRows<2, kKeysAtOnce>(type, some, keys, fetcher, to);
    ScoreRows<1, kKeysOfOne>(type, some, keys, fetcher, to);
  });
}

void ScoreAll(const float* queries, const SourceRows& keys, const SourceRows& following, const RowNumbers& scores) {
  switch (keys.type) {
    case ElementType::kFloat32:
      return Score(Float32(), queries, keys, following, scores);
    case ElementType::kBFloat16:
      return Score(BFloat16(), queries, keys, following, scores);
    case ElementType::kFloat16:
      return Score(Float16(), queries, keys, following, scores);
  }
}

// A block of sums: kRows rows by kPairs pairs of vectors from element x on.
template <int kRows, int kPairs, class Type>
// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void SumPairs(Type type, const RowNumbers& weights, const SourceRows& values, int x, Fetcher& fetcher,
                         float* sums) {
  using Bits = typename Type::Bits;
  const Floats d;
  const int stride = ExpandedDim(values.dim);
  Vector sum[kRows * kPairs * 2];
#pragma GCC unroll 32
  for (int n = 0; n < kRows * kPairs * 2; ++n) {
    sum[n] = hn::LoadU(d, sums + n / (kPairs * 2) * stride + x + n % (kPairs * 2) * kLanes);
  }
  for (int64_t j = 0; j < values.count; ++j) {
    fetcher.Step();
    const auto* value = static_cast<const Bits*>(values.row(j)) + x;
    Vector first[kPairs], second[kPairs];
#pragma GCC unroll 8
    for (int p = 0; p < kPairs; ++p) LoadPair(type, value + p * kPair, first[p], second[p]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector weight = hn::Set(d, weights.first[r * weights.stride + j]);
#pragma GCC unroll 8
      for (int p = 0; p < kPairs; ++p) {
        Vector* const pair = sum + (r * kPairs + p) * 2;
        pair[0] = hn::MulAdd(weight, first[p], pair[0]);
        pair[1] = hn::MulAdd(weight, second[p], pair[1]);
      }
    }
  }
#pragma GCC unroll 32
  for (int n = 0; n < kRows * kPairs * 2; ++n) {
    hn::StoreU(sum[n], d, sums + n / (kPairs * 2) * stride + x + n % (kPairs * 2) * kLanes);
  }
}

// Pairs of vectors of a block of sums.
constexpr int PairsOf(int rows) { return kSums / 2 / rows > 4 ? 4 : kSums / 2 / rows; }

template <int kRows, class Type>
HWY_INLINE void SumRows(Type type, const RowNumbers& weights, const SourceRows& values, Fetcher& fetcher, float* sums) {
  using Bits = typename Type::Bits;
  constexpr int kPairs = PairsOf(kRows);
  const Floats d;
  const int stride = ExpandedDim(values.dim);
  int x = 0;
  for (; x + kPairs * kPair <= values.dim; x += kPairs * kPair) {
    SumPairs<kRows, kPairs>(type, weights, values, x, fetcher, sums);
  }
  if constexpr (kPairs > 1) {
    for (; x + kPair <= values.dim; x += kPair) SumPairs<kRows, 1>(type, weights, values, x, fetcher, sums);
  }
  const auto single = [&](int at, const auto& load) HWY_ATTR {
    Vector sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r] = hn::LoadU(d, sums + r * stride + at);
    for (int64_t j = 0; j < values.count; ++j) {
      const Vector value = load(static_cast<const Bits*>(values.row(j)));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sum[r] = hn::MulAdd(hn::Set(d, weights.first[r * weights.stride + j]), value, sum[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) hn::StoreU(sum[r], d, sums + r * stride + at);
  };
  ForEachVector(
      type, values.dim, [](int) {}, single);
}

template <class Type>
void Sum(Type type, const RowNumbers& weights, const SourceRows& values, const SourceRows& following, float* sums) {
  const int stride = ExpandedDim(values.dim);
  int64_t blocks = 0;
  ForEachPass(weights.rows, kSumRows, [&](int, int rows) {
    const int pairs = values.dim / kPair;
    blocks += pairs / PairsOf(rows) + pairs % PairsOf(rows);
  });
  Fetcher fetcher(following, blocks * values.count);
  for (int64_t j = 0; j < values.count; j += kSumKeys) {
    SourceRows some = values;
    some.first = values.row(j);
    some.count = values.count - j < kSumKeys ? values.count - j : kSumKeys;
    ForEachPass(weights.rows, kSumRows, [&](int row, int rows) {
      float* const to = sums + row * stride;
      const RowNumbers of = {.first = weights.first + row * weights.stride + j, .stride = weights.stride, .rows = rows};
      if (rows == kSumRows) return SumRows<kSumRows>(type, of, some, fetcher, to);
      if (rows == 4) return SumRows<4>(type, of, some, fetcher, to);
      if (rows == 2) return SumRows<2>(type, of, some, fetcher, to);
      SumRows<1>(type, of, some, fetcher, to);
    });
  }
}

void SumAll(const RowNumbers& weights, const SourceRows& values, const SourceRows& following, float* sums) {
  switch (values.type) {
    case ElementType::kFloat32:
      return Sum(Float32(), weights, values, following, sums);
    case ElementType::kBFloat16:
      return Sum(BFloat16(), weights, values, following, sums);
    case ElementType::kFloat16:
      return Sum(Float16(), weights, values, following, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::core {
namespace {

HWY_EXPORT(ExpandElements);
HWY_EXPORT(Restore);
HWY_EXPORT(ScoreAll);
HWY_EXPORT(SumAll);

}  // namespace

void ExpandRow(const void* elements, int dim, ElementType type, float* expanded) {
  HWY_DYNAMIC_DISPATCH(ExpandElements)(elements, dim, type, expanded);
}

void RestoreRow(const float* expanded, int dim, ElementType type, float* restored) {
  HWY_DYNAMIC_DISPATCH(Restore)(expanded, dim, type, restored);
}

void ScoreKeys(const float* queries, const SourceRows& keys, const SourceRows& following, const RowNumbers& scores) {
  HWY_DYNAMIC_DISPATCH(ScoreAll)(queries, keys, following, scores);
}

void AddWeightedValues(const RowNumbers& weights, const SourceRows& values, const SourceRows& following, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumAll)(weights, values, following, sums);
}

}  // namespace attend::core
#endif  // HWY_ONCE
