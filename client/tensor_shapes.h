// What the axes of query, key and value mean, and whether the three fit together.
#ifndef ATTEND_CLIENT_TENSOR_SHAPES_H_
#define ATTEND_CLIENT_TENSOR_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"

namespace attend::client {

// Lengths of the axes of one problem. In layout THD the lengths are totals over all sequences.
struct AxisLengths {
  int64_t batch = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t query_length = 0;
  int64_t key_length = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
};

// Where element (batch, head, row, dim) of a tensor lies: batch * b + head * h + row * i + d, in elements.
struct RowStrides {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// A shape and what to call it in messages: a file's name, or "query".
struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

// The axes of three shapes of rank 4, or in layout THD of rank 3: [total length, heads, dim], which count as a batch of
// 1. INVALID_ARGUMENT, naming the tensor, what it has and what is wanted, for another rank, lengths that differ where
// they must not, and heads that do not divide.
absl::StatusOr<AxisLengths> MatchShapes(v1::Layout layout, const NamedShape& query, const NamedShape& key,
                                        const NamedShape& value);

// The shape, in `layout`, of a tensor with these axes; layout THD has no batch.
std::vector<int64_t> LayoutShape(v1::Layout layout, int64_t batch, int64_t heads, int64_t length, int64_t dim);

// The strides of such a tensor; 0 for the batch in layout THD.
RowStrides LayoutStrides(v1::Layout layout, int64_t heads, int64_t length, int64_t dim);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_TENSOR_SHAPES_H_
