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

// Lengths of the axes. Lengths and batch may be 0; heads and dims may not. In layout kTHD, batch is the number of
// sequences, and the lengths are totals over them.
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
  kTHD,   // [total length, heads, dim]: sequences of their own lengths, one after the other
};

enum class CausalAlignment {
  kNone,         // every query sees every key
  kTopLeft,      // query i sees keys 0 to i
  kBottomRight,  // query i sees keys 0 to i + (keys of its batch element - queries of its batch element)
};

// The type of the matrix products.
enum class ComputeType {
  kAsInputs,
  kBFloat16,  // where the processor has such products; in f32 elsewhere
};

// A tensor that is broadcast, aligned to the right, to [batch, query_heads, query_length, key_length].
struct BroadcastTensor {
  std::vector<int64_t> shape;                // of rank 2 to 4
  ElementType type = ElementType::kFloat32;  // of a bias; a mask has a byte per element
};

struct AttentionOptions {
  Layout layout = Layout::kBHND;
  std::optional<float> scale = {};  // finite; 1 / sqrt(head_dim) if absent
  float softcap = 0;                // c > 0: scores become c * tanh(scores / c)
  CausalAlignment causal = CausalAlignment::kNone;
  std::vector<int64_t> query_offset = {};  // empty (by `causal`), or [batch]: the position of query 0 among the keys
  int64_t window_left = -1;                // keys that a query sees before its own position, at most; -1: all
  int64_t window_right = -1;               // likewise after it
  std::vector<int64_t> key_lengths = {};   // empty, or [batch], each in [0, key_length]
  std::vector<int64_t> query_starts = {};  // layout kTHD: [batch + 1], from 0, never decreasing, ending at query_length
  std::vector<int64_t> key_starts = {};    // likewise, ending at key_length
  std::optional<BroadcastTensor> mask = {};  // true = may attend
  std::optional<BroadcastTensor> bias = {};  // added to the scores; -inf excludes a key
  std::vector<float> alibi_slopes = {};      // empty, or [query_heads]: adds -slope * |query position - key position|
  std::vector<float> sinks = {};             // empty, or [query_heads]: a further logit in the softmax's denominator
  ComputeType compute_type = ComputeType::kAsInputs;
  std::optional<ElementType> output_type = {};  // that of the inputs if absent; else that or f32
};

// Scores that are returned: scale * query . key, then softcap, then bias and masks (an excluded key has -inf).
enum class ScoreStage { kNone, kScaled, kSoftcapped, kMasked };

// What is computed. Asking for more changes no bit of the output.
struct ResultSelection {
  bool weights = false;
  std::vector<int64_t> weight_query_rows = {};  // the queries that weights and scores are for, in order; empty: all
  bool average_weights_over_heads = false;      // weights as their mean over the query heads
  ScoreStage scores = ScoreStage::kNone;
  bool logsumexp = false;
  bool omit_output = false;
};

// Where element (b, h, i, d) of a tensor lies: b * batch + h * head + i * row + d, in elements. In layout kTHD, `batch`
// is 0 and i counts from the first row of all.
struct Strides {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// Where element (b, h, i, j) of a broadcast tensor lies, in elements; 0 along an axis of length 1 or that is absent.
struct BroadcastStrides {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;
  int64_t key = 0;
};

// Positions [begin, end) among the keys of a batch element; begin <= end.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
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
  //   SOFTCAP_OUT_OF_RANGE     a negative, NaN or infinite softcap
  //   QUERY_OFFSET_COUNT       query_offset neither empty nor [batch]
  //   WINDOW_OUT_OF_RANGE      window_left or window_right below -1
  //   KEY_LENGTHS_COUNT        key_lengths neither empty nor [batch]
  //   KEY_LENGTH_OUT_OF_RANGE  one of them outside [0, key_length] (field key_lengths[2])
  //   STARTS_COUNT             query_starts or key_starts that are not [batch + 1] in layout kTHD
  //   STARTS_OUT_OF_ORDER      starts that do not begin at 0, decrease or do not end at the total (field key_starts[3])
  //   NOT_BROADCASTABLE        a mask or bias of a rank other than 2 to 4, or with an axis that is neither 1 nor that
  //   of
  //                            the scores (field mask.shape, or mask.shape[1])
  //   SLOPES_COUNT, SLOPE_NOT_FINITE   alibi_slopes neither empty nor [query_heads]; one that is not finite
  //   SINKS_COUNT, SINK_OUT_OF_RANGE   sinks likewise; one that is NaN or +inf
  //   COMPUTE_TYPE_MISMATCH    kBFloat16 for f16 inputs (field compute_type)
  //   OUTPUT_TYPE_MISMATCH     an output_type that is neither the inputs' nor f32
  //   QUERY_ROW_OUT_OF_RANGE, QUERY_ROW_TWICE  in weight_query_rows (field weight_query_rows[1])
  //   OPTIONS_CONTRADICT       starts without kTHD; in kTHD key_lengths, mask, bias, weights or scores (the field);
  //                            weight_query_rows with neither weights nor scores; average_weights_over_heads without
  //                            weights; omit_output with no other result
  //   SIZE_OVERFLOW            more than 2^63 - 1 bytes of a tensor (the field)
  static absl::StatusOr<AttentionProblem> Create(const AttentionShape& shape, ElementType type,
                                                 AttentionOptions options = {}, ResultSelection results = {});

  const AttentionShape& shape() const { return shape_; }
  ElementType type() const { return type_; }  // of query, key and value
  ElementType output_type() const { return options_.output_type.value_or(type_); }
  const AttentionOptions& options() const { return options_; }
  const ResultSelection& results() const { return results_; }
  float scale() const { return scale_; }                                       // the default filled in
  int64_t group_size() const { return shape_.query_heads / shape_.kv_heads; }  // query heads per kv head

  // The queries and keys of batch element b: in layout kTHD those of its sequence; else query_length, and
  // key_lengths[b] or key_length.
  int64_t QueryCount(int64_t b) const;
  int64_t KeyCount(int64_t b) const;
  // The position of query 0 of batch element b among its keys: what the causal mask, windows and ALiBi count from. Any
  // int64: query i may stand at a position that int64 does not hold.
  int64_t QueryOffset(int64_t b) const;
  // The keys that query i of batch element b sees by its position: causal mask, windows and the number of keys
  // together. Neither end decreases with i. Mask and bias, whose contents are not known here, may exclude further ones.
  KeyRange VisibleKeys(int64_t b, int64_t i) const;
  // The keys that some query of batch element b sees by its position; empty if there are none.
  KeyRange SeenKeys(int64_t b) const;
  // Whether the three above are the same for every batch element: there may be 2^40 of them (with no bytes).
  bool ElementsAreAlike() const;

  // Layout kTHD included: where row 0 of batch element b begins.
  Strides QueryStrides() const;
  Strides KeyStrides() const;
  Strides ValueStrides() const;
  Strides OutputStrides() const;
  // Where element 0 of a row lies, by the strides above, sequences included.
  int64_t QueryIndex(int64_t b, int64_t query_head, int64_t i) const;
  int64_t KeyIndex(int64_t b, int64_t kv_head, int64_t j) const;
  int64_t ValueIndex(int64_t b, int64_t kv_head, int64_t j) const;
  int64_t OutputIndex(int64_t b, int64_t query_head, int64_t i) const;
  // Of a row in logsumexp: [batch, query_heads, query_length], or [query_heads, query_length] in layout kTHD.
  int64_t LogsumexpIndex(int64_t b, int64_t query_head, int64_t i) const;
  BroadcastStrides MaskStrides() const;  // all 0 without a mask
  BroadcastStrides BiasStrides() const;

  // The rows that weights and scores have: the number of weight_query_rows, or query_length.
  int64_t WeightRows() const;

  int64_t QueryBytes() const;
  int64_t KeyBytes() const;
  int64_t ValueBytes() const;
  int64_t MaskBytes() const;    // 0 without a mask
  int64_t BiasBytes() const;    // 0 without a bias
  int64_t OutputBytes() const;  // 0 with omit_output
  // The next three are 0 unless asked for.
  int64_t WeightsBytes() const;  // f32 [batch, query_heads, WeightRows(), key_length], without the heads if averaged
  int64_t ScoresBytes() const;   // f32 [batch, query_heads, WeightRows(), key_length]
  int64_t LogsumexpBytes() const;

  // Multiply-adds of both matrix products over the keys that are visible by position: the sum of their counts *
  // (head_dim + value_dim); saturates at the largest int64. Takes O(batch) time, not O(batch * query_length).
  int64_t MultiplyAdds() const;

 private:
  AttentionProblem() = default;

  int64_t FirstQuery(int64_t b) const;  // row of query 0 of batch element b, in layout kTHD; else 0
  int64_t FirstKey(int64_t b) const;
  int64_t TensorBytes(int64_t heads, int64_t length, int64_t dim, ElementType type) const;

  AttentionShape shape_;
  ElementType type_ = ElementType::kFloat32;
  AttentionOptions options_;
  ResultSelection results_;
  float scale_ = 1;
};

// Where the tensors of a problem lie. Each pointer is aligned to its element and may be null where the tensor has no
// bytes. Not owned: they outlive the computation.
struct AttentionInputs {
  const void* query = nullptr;    // QueryBytes()
  const void* key = nullptr;      // KeyBytes()
  const void* value = nullptr;    // ValueBytes()
  const uint8_t* mask = nullptr;  // MaskBytes(), of the mask's shape, row-major; 0 is false, anything else true
  const void* bias = nullptr;     // BiasBytes(), of the bias's shape and type, row-major
};
struct AttentionResults {
  void* output = nullptr;      // OutputBytes(), written once, every byte
  float* weights = nullptr;    // WeightsBytes(), every byte, masked keys included
  float* scores = nullptr;     // ScoresBytes(), likewise
  float* logsumexp = nullptr;  // LogsumexpBytes()
};

}  // namespace attend::core

#endif  // ATTEND_CORE_ATTENTION_PROBLEM_H_
