// The two products of attention for few query rows. Their time is that of reading keys and values, so these are read
// where they lie, once, and converted in registers. SIMD, dispatched at run time.
//
// While one of the two is read, the other's rows that come next are fetched into the second-level cache, so that the
// memory never waits for the arithmetic.
//
// Every element of a result is the sum of one sequence of products, whatever the number of rows and keys: its bits
// depend on its own row and keys alone.
#ifndef ATTEND_CORE_ROW_PRODUCTS_H_
#define ATTEND_CORE_ROW_PRODUCTS_H_

#include <cstdint>

#include "core/packing.h"

namespace attend::core {

// Floats that an expanded row of `dim` elements takes: see ExpandRow().
constexpr int ExpandedDim(int dim) { return (dim + 31) / 32 * 32; }

// Writes rows as floats [rows.count, ExpandedDim(rows.dim)], in the order in which the products below take the elements
// of rows of this type and dim. Float i of a row has no meaning but to them; RestoreRow() brings sums back into order.
void ExpandRows(const SourceRows& rows, float* expanded);

// The inverse, of expanded floats: `dim` of them.
void RestoreRow(const float* expanded, int dim, ElementType type, float* restored);

// One number of each row for each key.
struct RowNumbers {
  float* first = nullptr;
  int64_t stride = 0;  // from row to row
  int rows = 0;
};

// scores[i, j] = queries[i] . keys[j], for expanded queries [rows, ExpandedDim(keys.dim)]. Fetches the rows of
// `following`, of which there may be none.
void ScoreKeys(const float* queries, const SourceRows& keys, const SourceRows& following, const RowNumbers& scores);

// sums[i] += the sum of weights[i, j] * values[j], for expanded sums [rows, ExpandedDim(values.dim)].
void AddWeightedValues(const RowNumbers& weights, const SourceRows& values, const SourceRows& following, float* sums);

}  // namespace attend::core

#endif  // ATTEND_CORE_ROW_PRODUCTS_H_
