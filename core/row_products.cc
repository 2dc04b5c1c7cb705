// Compiled once per instruction set (Highway's foreach_target), with AVX2 as the least. Standard headers with inline
// functions are kept out: the linker could give their AVX2 code to callers that run before the processor is checked.
//
// Both products hold a small block of their result in registers: scores of some keys by some rows, whose vectors of
// partial sums are added up at the end, or sums of some rows in some columns. Each loaded vector is used for all rows
// of the block.
//
// With several rows the arithmetic takes as long as the memory, and each product fetches what the other reads next, a
// little at every step. With one row it does not, and less is more: what is read in order the processor foresees by
// itself. Rows of four bytes an element are read one after the other, those of two some at a time, for they are too
// short to hide the latency of their own sums. Only what comes at once is fetched, and where a product begins anew.
// Measured on Zen 4, as shares of a plain read: 0.88 in f32 and 0.86 in bf16; with all fetched 0.72 and 0.78.
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
#include "core/row_fetcher.h"

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

void ExpandAll(const SourceRows& rows, float* to) {
  return WithElementType(rows.type, rows.rounded, [&](auto type) HWY_ATTR {
    for (int64_t i = 0; i < rows.count; ++i) {
      const auto* row = static_cast<const typename decltype(type)::Bits*>(rows.row(i));
      Expand(type, row, rows.dim, to + i * ExpandedDim(rows.dim));
    }
  });
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

// Whether a product fetches at its steps.
template <int kRows, class Type>
constexpr bool kFetchesAtSteps = kRows > 1 || sizeof(typename Type::Bits) == 4;
// How many rows before they are read those of a product that does not are fetched.
constexpr int64_t kAhead = 32;

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
// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void ScoreBlock(Type type, const float* queries, const typename Type::Bits* const* keys, int dim,
                           RowFetcher& fetcher, Vector* sums) {
  const Floats d;
  const int stride = ExpandedDim(dim);
  Vector sum[kRows * kKeys];
#pragma GCC unroll 32
  for (int n = 0; n < kRows * kKeys; ++n) sum[n] = hn::Zero(d);
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
      if constexpr (kFetchesAtSteps<kRows, Type>) fetcher.Step();
      LoadPair(type, keys[k] + x, key_first, key_second);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Vector& to = sum[r * kKeys + k];
        to = hn::MulAdd(second[r], key_second, hn::MulAdd(first[r], key_first, to));
      }
    }
  };
  const auto single = [&](int x, const auto& load) HWY_ATTR {
#pragma GCC unroll 16
    for (int k = 0; k < kKeys; ++k) {
      const Vector key = load(keys[k]);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Vector& to = sum[r * kKeys + k];
        to = hn::MulAdd(hn::LoadU(d, queries + r * stride + x), key, to);
      }
    }
  };
  ForEachVector(type, dim, pair, single);
#pragma GCC unroll 32
  for (int n = 0; n < kRows * kKeys; ++n) sums[n] = sum[n];
}

// Scores of the keys from j on: kRows rows of them in `sums`, kKeys in each.
template <int kRows, int kKeys>
HWY_INLINE void StoreScores(const Vector* sums, int64_t j, int64_t count, const RowNumbers& scores) {
  const hn::Full128<float> quad;
#pragma GCC unroll 16
  for (int n = 0; n < kRows * kKeys; n += 4) {
    float* const to = scores.first + n / kKeys * scores.stride + j + n % kKeys;
    const int64_t left = count - j - n % kKeys;
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

// The rows of keys [j, j + kKeys). Missing keys are the last one again.
template <int kKeys, typename Bits>
HWY_INLINE void FindRows(const SourceRows& keys, int64_t j, const Bits** rows) {
  for (int64_t k = 0; k < kKeys; ++k) {
    rows[k] = static_cast<const Bits*>(keys.row(j + k < keys.count ? j + k : keys.count - 1));
  }
}

template <int kRows, class Type>
void ScoreRows(Type type, const float* queries, const SourceRows& keys, RowFetcher& fetcher, const RowNumbers& scores) {
  for (int64_t j = 0; j < keys.count; j += kKeysAtOnce) {
    const typename Type::Bits* rows[kKeysAtOnce];
    FindRows<kKeysAtOnce>(keys, j, rows);
    Vector sums[kRows * kKeysAtOnce];
    ScoreBlock<kRows, kKeysAtOnce>(type, queries, rows, keys.dim, fetcher, sums);
    StoreScores<kRows, kKeysAtOnce>(sums, j, keys.count, scores);
  }
}

// One row, of four bytes an element.
template <class Type, hwy::EnableIf<sizeof(typename Type::Bits) == 4>* = nullptr>
HWY_INLINE void ScoreRow(Type type, const float* query, const SourceRows& keys, const SourceRows& following,
                         const RowNumbers& scores) {
  RowFetcher fetcher(Beginning(following), (keys.count + kKeysAtOnce) * (keys.dim / kPair));
  for (int64_t j = 0; j < keys.count; j += kKeysAtOnce) {
    const float* rows[kKeysAtOnce];
    FindRows<kKeysAtOnce>(keys, j, rows);
    Vector sums[kKeysAtOnce];
    for (int k = 0; k < kKeysAtOnce; ++k) ScoreBlock<1, 1>(type, query, rows + k, keys.dim, fetcher, sums + k);
    StoreScores<1, kKeysAtOnce>(sums, j, keys.count, scores);
  }
}

// One row, of two bytes an element.
template <class Type, hwy::EnableIf<sizeof(typename Type::Bits) == 2>* = nullptr>
HWY_INLINE void ScoreRow(Type type, const float* query, const SourceRows& keys, const SourceRows& following,
                         const RowNumbers& scores) {
  constexpr int kKeys = 2 * kKeysAtOnce;
  RowFetcher none({}, 1);
  for (int64_t j = 0; j < keys.count; j += kKeys) {
    for (int64_t k = j + kAhead; k < j + kAhead + kKeys; ++k) {
      if (k < keys.count) {
        FetchRow(keys, k);
      } else {
        FetchRow(following, k - keys.count);
      }
    }
    const typename Type::Bits* rows[kKeys];
    FindRows<kKeys>(keys, j, rows);
    Vector sums[kKeys];
    ScoreBlock<1, kKeys>(type, query, rows, keys.dim, none, sums);
    StoreScores<1, kKeys>(sums, j, keys.count, scores);
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

// Passes of several rows.
int64_t CountPasses(int rows, int most) {
  int64_t passes = 0;
  ForEachPass(rows, most, [&](int, int count) { passes += count > 1 ? 1 : 0; });
  return passes;
}

template <class Type>
void Score(Type type, const float* queries, const SourceRows& keys, const SourceRows& following,
           const RowNumbers& scores) {
  const int stride = ExpandedDim(keys.dim);
  if (scores.rows == 1) return ScoreRow(type, queries, keys, following, scores);
  const int64_t blocks = (keys.count + kKeysAtOnce - 1) / kKeysAtOnce;
  RowFetcher fetcher(following, CountPasses(scores.rows, kScoreRows) * blocks * kKeysAtOnce * (keys.dim / kPair));
  ForEachPass(scores.rows, kScoreRows, [&](int row, int rows) {
    const float* const some = queries + row * stride;
    const RowNumbers to = {.first = scores.first + row * scores.stride, .stride = scores.stride, .rows = rows};
    if (rows == kScoreRows) return ScoreRows<kScoreRows>(type, some, keys, fetcher, to);
    if (rows == 2) return ScoreRows<2>(type, some, keys, fetcher, to);
    ScoreRow(type, some, keys, {}, to);
  });
}

void ScoreAll(const float* queries, const SourceRows& keys, const SourceRows& following, const RowNumbers& scores) {
  return WithElementType(keys.type, keys.rounded,
                         [&](auto type) HWY_ATTR { return Score(type, queries, keys, following, scores); });
}

// A block of sums: kRows rows by kPairs pairs of vectors from element x on.
template <int kRows, int kPairs, class Type>
// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void SumPairs(Type type, const RowNumbers& weights, const SourceRows& values, int x, RowFetcher& fetcher,
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
    const auto* value = static_cast<const Bits*>(values.row(j)) + x;
    Vector weight[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) weight[r] = hn::Set(d, weights.first[r * weights.stride + j]);
#pragma GCC unroll 8
    for (int p = 0; p < kPairs; ++p) {
      if constexpr (kFetchesAtSteps<kRows, Type>) fetcher.Step();
      Vector first, second;
      LoadPair(type, value + p * kPair, first, second);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Vector* const pair = sum + (r * kPairs + p) * 2;
        pair[0] = hn::MulAdd(weight[r], first, pair[0]);
        pair[1] = hn::MulAdd(weight[r], second, pair[1]);
      }
    }
  }
#pragma GCC unroll 32
  for (int n = 0; n < kRows * kPairs * 2; ++n) {
    hn::StoreU(sum[n], d, sums + n / (kPairs * 2) * stride + x + n % (kPairs * 2) * kLanes);
  }
}

// All pairs from element x on, in blocks of kPairs and, where so many are not left, of half as many.
template <int kRows, int kPairs, class Type>
// NOLINTNEXTLINE(readability-function-size): inlined, and its arguments are registers
HWY_INLINE void SumColumns(Type type, const RowNumbers& weights, const SourceRows& values, int x, RowFetcher& fetcher,
                           float* sums) {
  for (; x + kPairs * kPair <= values.dim; x += kPairs * kPair) {
    SumPairs<kRows, kPairs>(type, weights, values, x, fetcher, sums);
  }
  if constexpr (kPairs > 1) SumColumns<kRows, kPairs / 2>(type, weights, values, x, fetcher, sums);
}

template <int kRows, class Type>
HWY_INLINE void SumRows(Type type, const RowNumbers& weights, const SourceRows& values, RowFetcher& fetcher,
                        float* sums) {
  using Bits = typename Type::Bits;
  const Floats d;
  const int stride = ExpandedDim(values.dim);
  SumColumns<kRows, kSums / 2 / kRows>(type, weights, values, 0, fetcher, sums);
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
  const bool one = weights.rows == 1;
  if (!kFetchesAtSteps<1, Type>) {
    for (int64_t k = 0; one && k < kAhead; ++k) FetchRow(following, k);
  }
  const int64_t passes = one ? 1 : CountPasses(weights.rows, kSumRows);
  RowFetcher fetcher(one ? Beginning(following) : following, passes * values.count * (values.dim / kPair));
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
  return WithElementType(values.type, values.rounded,
                         [&](auto type) HWY_ATTR { return Sum(type, weights, values, following, sums); });
}

}  // namespace HWY_NAMESPACE
}  // namespace attend::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::core {
namespace {

HWY_EXPORT(ExpandAll);
HWY_EXPORT(Restore);
HWY_EXPORT(ScoreAll);
HWY_EXPORT(SumAll);

}  // namespace

void ExpandRows(const SourceRows& rows, float* expanded) { HWY_DYNAMIC_DISPATCH(ExpandAll)(rows, expanded); }

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
