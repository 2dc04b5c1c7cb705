#include "client/tensor_shapes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attend::client {
namespace {

std::string Text(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// A shape with an axis whose length is free given by its name.
std::string Wanted(v1::Layout layout, int64_t batch, const std::string& heads, const std::string& length,
                   const std::string& dim) {
  if (layout == v1::LAYOUT_THD) return absl::StrCat("[", length, ", ", heads, ", ", dim, "]");
  const bool heads_first = layout != v1::LAYOUT_BNHD;
  return absl::StrCat("[", batch, ", ", heads_first ? heads : length, ", ", heads_first ? length : heads, ", ", dim,
                      "]");
}

std::string AxesText(v1::Layout layout) {
  if (layout == v1::LAYOUT_THD) return "[total length, heads, dim]";
  return layout == v1::LAYOUT_BNHD ? "[batch, length, heads, dim]" : "[batch, heads, length, dim]";
}

absl::Status Misfit(const NamedShape& tensor, const std::string& wanted, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(tensor.name, ": shape is ", Text(tensor.shape), ", must be ", wanted, why));
}

struct Axes {
  int64_t batch;
  int64_t heads;
  int64_t length;
  int64_t dim;
};

Axes AxesOf(v1::Layout layout, const std::vector<int64_t>& shape) {
  if (layout == v1::LAYOUT_THD) return {1, shape[1], shape[0], shape[2]};
  if (layout == v1::LAYOUT_BNHD) return {shape[0], shape[2], shape[1], shape[3]};
  return {shape[0], shape[1], shape[2], shape[3]};
}

}  // namespace

absl::StatusOr<AxisLengths> MatchShapes(v1::Layout layout, const NamedShape& query, const NamedShape& key,
                                        const NamedShape& value) {
  const size_t rank = layout == v1::LAYOUT_THD ? 3 : 4;
  for (const NamedShape* tensor : {&query, &key, &value}) {
    if (tensor->shape.size() == rank) continue;
    return Misfit(*tensor, AxesText(layout), absl::StrCat(": rank is ", tensor->shape.size(), ", must be ", rank));
  }
  const Axes q = AxesOf(layout, query.shape);
  const Axes k = AxesOf(layout, key.shape);
  const Axes v = AxesOf(layout, value.shape);
  if (q.heads < 1)
    return Misfit(query, Wanted(layout, q.batch, "query_heads", "query_length", "head_dim"), " with at least one head");
  if (q.dim < 1) {
    return Misfit(query, Wanted(layout, q.batch, "query_heads", "query_length", "head_dim"),
                  " with a head_dim of at least 1");
  }
  if (k.batch != q.batch || k.dim != q.dim) {
    return Misfit(key, Wanted(layout, q.batch, "kv_heads", "key_length", absl::StrCat(q.dim)),
                  absl::StrCat(", to fit ", query.name));
  }
  if (v.batch != k.batch || v.heads != k.heads || v.length != k.length) {
    return Misfit(value, Wanted(layout, k.batch, absl::StrCat(k.heads), absl::StrCat(k.length), "value_dim"),
                  absl::StrCat(", to fit ", key.name));
  }
  if (k.heads < 1 || q.heads % k.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.name, ": has ", k.heads, " heads, must be a divisor of the ", q.heads, " of ", query.name));
  }
  return AxisLengths{.batch = q.batch,
                     .query_heads = q.heads,
                     .kv_heads = k.heads,
                     .query_length = q.length,
                     .key_length = k.length,
                     .head_dim = q.dim,
                     .value_dim = v.dim};
}

std::vector<int64_t> LayoutShape(v1::Layout layout, int64_t batch, int64_t heads, int64_t length, int64_t dim) {
  if (layout == v1::LAYOUT_THD) return {length, heads, dim};
  if (layout == v1::LAYOUT_BNHD) return {batch, length, heads, dim};
  return {batch, heads, length, dim};
}

RowStrides LayoutStrides(v1::Layout layout, int64_t heads, int64_t length, int64_t dim) {
  if (layout == v1::LAYOUT_THD) return {.batch = 0, .head = dim, .row = heads * dim};
  if (layout == v1::LAYOUT_BNHD) return {.batch = heads * length * dim, .head = dim, .row = heads * dim};
  return {.batch = heads * length * dim, .head = length * dim, .row = dim};
}

}  // namespace attend::client
