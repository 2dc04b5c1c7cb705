// Attention in double precision, one row at a time: slow, obvious, and independent of the service. What `--verify`
// compares the service's answers with.
#ifndef ATTEND_CLIENT_REFERENCE_ATTENTION_H_
#define ATTEND_CLIENT_REFERENCE_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attend/v1/attention.pb.h"
#include "client/attend_client.h"
#include "client/tensor_shapes.h"

namespace attend::client {

// The results for one query of one head of one batch element.
struct ReferenceRow {
  std::vector<double> output;   // [value_dim]
  std::vector<double> weights;  // [key_length]; exactly 0 for a key that is not visible
  double logsumexp = 0;         // natural; -inf for a row without keys (or its sink)
  std::vector<double> scores;   // [key_length], at the stage that the request names; empty if it names none

  // What rounding errors grow with: see RoundingBound.
  int64_t visible_keys = 0;
  double product_magnitude = 0;          // the largest |scale| * sum |q_d k_d| of a visible key
  double score_magnitude = 0;            // the largest sum of magnitudes that a visible key's score, or the sink, is of
  std::vector<double> output_magnitude;  // [value_dim]: sum of weight * |v|
  // The first two for each of `scores`.
  std::vector<double> product_magnitudes;
  std::vector<double> score_magnitudes;
};

// One row of a request. In layout THD `batch` is the sequence, and `query` counts from its start.
struct RowPlace {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;
};

// A request, ready to be computed. Immutable, so thread-safe. References the memory of the request's tensors.
class ReferenceAttention {
 public:
  // INVALID_ARGUMENT for shapes, byte counts or list lengths that do not fit.
  static absl::StatusOr<ReferenceAttention> Create(const AttendRequest& request);

  // The row of query i of head h of batch element b.
  ReferenceRow Compute(int64_t b, int64_t h, int64_t i) const;

  // In layout THD the batch is the number of sequences, the lengths are totals.
  const AxisLengths& axes() const { return axes_; }
  // That of ReferenceRow::scores; UNSPECIFIED if there are none.
  v1::ScoreStage stage() const { return stage_; }
  // How many rows there are, and which is number n of them: they are numbered as logsumexp's elements.
  int64_t total_rows() const;
  RowPlace Place(int64_t number) const;
  // The row of the packed tensors that holds query 0 of batch element b in layout THD; else 0.
  int64_t FirstQuery(int64_t b) const;

 private:
  // A tensor of a float type, widened where it is not FLOAT32.
  struct Elements {
    std::vector<float> widened;
    std::span<const std::byte> data;
    float operator[](int64_t index) const;
  };
  // A mask or bias, broadcast to [batch, query_heads, query_length, key_length].
  struct Broadcast {
    std::vector<float> elements;  // of a mask: 0 or 1
    int64_t strides[4] = {};
    float At(int64_t b, int64_t h, int64_t i, int64_t j) const {
      return elements[static_cast<size_t>(b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3])];
    }
  };
  struct KeyRange {
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Score {
    double scaled = 0;
    double softcapped = 0;
    double value = 0;  // with bias and ALiBi
    double product_magnitude = 0;
    double magnitude = 0;
  };

  ReferenceAttention() = default;
  static absl::StatusOr<Elements> Widen(absl::string_view name, const TensorView& tensor);
  absl::StatusOr<Broadcast> ReadBroadcast(absl::string_view name, const TensorView& tensor) const;
  absl::Status CheckLists() const;
  absl::Status CheckStarts() const;
  bool ragged() const { return options_.layout() == v1::LAYOUT_THD; }
  int64_t FirstKey(int64_t b) const;
  int64_t QueryCount(int64_t b) const;
  int64_t KeyCount(int64_t b) const;
  int64_t QueryOffset(int64_t b) const;
  // The keys that causal mask, window and key_lengths leave; mask and bias exclude more, one by one.
  KeyRange Range(int64_t b, int64_t i) const;
  bool Excluded(int64_t b, int64_t h, int64_t i, int64_t j) const;
  Score ScoreOf(int64_t b, int64_t h, int64_t i, int64_t j) const;
  void AddScores(const RowPlace& at, const KeyRange& range, ReferenceRow& row) const;

  AxisLengths axes_;
  v1::AttentionOptions options_;
  v1::ScoreStage stage_ = v1::SCORE_STAGE_UNSPECIFIED;
  double scale_ = 1;
  Elements query_;
  Elements key_;
  Elements value_;
  std::optional<Broadcast> mask_;
  std::optional<Broadcast> bias_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_REFERENCE_ATTENTION_H_
