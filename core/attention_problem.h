// One attention call, fully described: shapes, types and options, validated. No tensor contents.
#ifndef ATTEND_CORE_ATTENTION_PROBLEM_H_
#define ATTEND_CORE_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/element_type.h"

namespace attend::core {

// The largest head_dim and value_dim.
inline constexpr int64_t kMaxHeadDim = 1024;

// Lengths of the axes. Lengths and batch may be 0; heads and dims may not.
struct AttentionShape {
  int64_t batch = 1;
  int64_t query_heads = 1;
  int64_t kv_heads = 1;
  int64_t query_length = 0;
  int64_t key_length = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
};

// The order of the axes of query, key, value and output in memory.
enum class Layout {
  kBHND,  // [batch, heads, length, dim]
  kBNHD,  // [batch, length, heads, dim]
};

enum class CausalAlignment {
  kNone,         // every query sees every key
  kTopLeft,      // query i sees keys 0 to i
  kBottomRight,  // query i sees keys 0 to i + (keys of its batch element - query_length)
};

struct AttentionOptions {
  Layout layout = Layout::kBHND;
  std::optional<float> scale = {};  // finite; 1 / sqrt(head_dim) if absent
  CausalAlignment causal = CausalAlignment::kNone;
  std::vector<int64_t> key_lengths = {};  // empty, or [batch], each in [0, key_length]
};

// What is computed besides the output. Asking for more changes no bit of the output.
struct ResultSelection {
  bool weights = false;    // f32 [batch, query_heads, query_length, key_length]
  bool logsumexp = false;  // f32 [batch, query_heads, query_length]
};

// Where element (b, h, i, d) of a tensor lies: b * batch + h * head + i * row + d, in elements.
struct Strides {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// An immutable value. Every byte count and stride below is known not to overflow int64.
class AttentionProblem {
 public:
  // INVALID_ARGUMENT with a Violation (core/violation.h) whose field is a member's name above or below, for:
  //   LENGTH_OUT_OF_RANGE      a negative batch, query_length or key_length
  //   HEADS_OUT_OF_RANGE       query_heads or kv_heads below 1
  //   DIM_OUT_OF_RANGE         head_dim or value_dim outside [1, kMaxHeadDim]
  //   HEADS_NOT_DIVISIBLE      query_heads that kv_heads does not divide (field query_heads)
  //   SCALE_NOT_FINITE         a NaN or infinite scale
  //   KEY_LENGTHS_COUNT        key_lengths neither empty nor [batch]
  //   KEY_LENGTH_OUT_OF_RANGE  one of them outside [0, key_length] (field key_lengths[2])
  //   SIZE_OVERFLOW            more than 2^63 - 1 bytes of query, key, value, output, weights or logsumexp (the field)
  static absl::StatusOr<AttentionProblem> Create(const AttentionShape& shape, ElementType type,
                                                 AttentionOptions options = {}, ResultSelection results = {});

  const AttentionShape& shape() const { return shape_; }
  ElementType type() const { return type_; }
  const AttentionOptions& options() const { return options_; }
  const ResultSelection& results() const { return results_; }
  float scale() const { return scale_; }                                       // the default filled in
  int64_t group_size() const { return shape_.query_heads / shape_.kv_heads; }  // query heads per kv head

  // The keys of batch element b: key_lengths[b], or key_length.
  int64_t KeyCount(int64_t b) const;
  // The position of query 0 of batch element b among its keys: what the causal mask counts from.
  int64_t QueryOffset(int64_t b) const;
  // Query i of batch element b sees keys [0, VisibleKeyEnd(b, i)), 0 to KeyCount(b).
  int64_t VisibleKeyEnd(int64_t b, int64_t i) const;

  Strides QueryStrides() const;
  Strides KeyStrides() const;
  Strides ValueStrides() const;
  Strides OutputStrides() const;

  int64_t QueryBytes() const;
  int64_t KeyBytes() const;
  int64_t ValueBytes() const;
  int64_t OutputBytes() const;
  int64_t WeightsBytes() const;    // 0 unless asked for
  int64_t LogsumexpBytes() const;  // 0 unless asked for

  // Multiply-adds of both matrix products over visible keys: sum of visible keys * (head_dim + value_dim); saturates at
  // the largest int64. Takes O(batch) time, not O(batch * query_length).
  int64_t MultiplyAdds() const;

 private:
  AttentionProblem() = default;

  AttentionShape shape_;
  ElementType type_ = ElementType::kFloat32;
  AttentionOptions options_;
  ResultSelection results_;
  float scale_ = 1;
};

// Where the tensors of a problem lie. Each pointer is aligned to its element and may be null where the tensor has no
// bytes. Not owned: they outlive the computation.
struct AttentionInputs {
  const void* query = nullptr;  // QueryBytes()
  const void* key = nullptr;    // KeyBytes()
  const void* value = nullptr;  // ValueBytes()
};
struct AttentionResults {
  void* output = nullptr;      // OutputBytes(), written once, every byte
  float* weights = nullptr;    // WeightsBytes(), every byte, masked keys included
  float* logsumexp = nullptr;  // LogsumexpBytes()
};

}  // namespace attend::core

#endif  // ATTEND_CORE_ATTENTION_PROBLEM_H_
