#include "tests/testing/problem_values.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;
using core::Strides;

// A quiet NaN of a bit pattern that arithmetic does not make.
constexpr std::byte kUnwritten{0xFE};

void WriteElement(ElementType type, float value, std::byte* to) {
  if (type == ElementType::kFloat32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t bits = type == ElementType::kBFloat16 ? core::FloatToBFloat16(value) : core::FloatToFloat16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

float ReadElement(ElementType type, const std::byte* from) {
  if (type == ElementType::kFloat32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return type == ElementType::kBFloat16 ? core::BFloat16ToFloat(bits) : core::Float16ToFloat(bits);
}

// The axes of one tensor, and where its elements lie.
struct Extent {
  int64_t batch;
  int64_t heads;
  int64_t length;
  int64_t dim;
  Strides strides;
};

// Calls visit(index in [batch, heads, length, dim], index in memory) for every element.
template <typename Visit>
void ForEachElement(const Extent& extent, Visit visit) {
  int64_t index = 0;
  for (int64_t b = 0; b < extent.batch; ++b) {
    for (int64_t row = 0; row < extent.heads * extent.length; ++row) {
      const int64_t h = row / extent.length;
      const int64_t i = row % extent.length;
      const int64_t start = b * extent.strides.batch + h * extent.strides.head + i * extent.strides.row;
      for (int64_t d = 0; d < extent.dim; ++d) visit(index++, start + d);
    }
  }
}

std::vector<std::byte> Encode(ElementType type, const Extent& extent, const std::vector<float>& values,
                              size_t misalignment) {
  const int64_t size = core::ElementBytes(type);
  std::vector<std::byte> bytes(misalignment + values.size() * size);
  ForEachElement(extent, [&](int64_t index, int64_t place) {
    WriteElement(type, values.at(index), bytes.data() + misalignment + place * size);
  });
  return bytes;
}

Extent QueryExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return {s.batch, s.query_heads, s.query_length, s.head_dim, problem.QueryStrides()};
}

Extent KeyExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return {s.batch, s.kv_heads, s.key_length, s.head_dim, problem.KeyStrides()};
}

Extent ValueExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return {s.batch, s.kv_heads, s.key_length, s.value_dim, problem.ValueStrides()};
}

Extent OutputExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return {s.batch, s.query_heads, s.query_length, s.value_dim, problem.OutputStrides()};
}

// The first byte in which two blocks differ, as "name: byte 12 of 64"; empty if none does.
std::string DifferenceIn(const char* name, const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  if (a_bytes == 0 || b_bytes == 0) return "";
  if (a_bytes != b_bytes) return absl::StrCat(name, ": ", a_bytes, " and ", b_bytes, " bytes");
  if (std::memcmp(a, b, a_bytes) == 0) return "";
  size_t first = 0;
  while (static_cast<const char*>(a)[first] == static_cast<const char*>(b)[first]) ++first;
  return absl::StrCat(name, ": first at byte ", first, " of ", a_bytes);
}

void AppendOptions(const AttentionProblem& problem, std::string* text) {
  const core::AttentionOptions& options = problem.options();
  if (options.layout == Layout::kBNHD) absl::StrAppend(text, " BNHD");
  if (options.causal == CausalAlignment::kTopLeft) absl::StrAppend(text, " causal=top_left");
  if (options.causal == CausalAlignment::kBottomRight) absl::StrAppend(text, " causal=bottom_right");
  if (options.scale.has_value()) absl::StrAppend(text, " scale=", *options.scale);
  if (!options.key_lengths.empty()) {
    absl::StrAppend(text, " key_lengths=", absl::StrJoin(options.key_lengths, ","));
  }
  if (problem.results().weights) absl::StrAppend(text, " weights");
  if (problem.results().logsumexp) absl::StrAppend(text, " logsumexp");
}

}  // namespace

float RoundTo(ElementType type, float value) {
  switch (type) {
    case ElementType::kFloat32:
      return value;
    case ElementType::kBFloat16:
      return core::BFloat16ToFloat(core::FloatToBFloat16(value));
    case ElementType::kFloat16:
      return core::Float16ToFloat(core::FloatToFloat16(value));
  }
  return value;
}

int64_t QueryIndex(const AttentionShape& s, int64_t b, int64_t h, int64_t i) {
  return RowIndex(s, b, h, i) * s.head_dim;
}

int64_t KeyIndex(const AttentionShape& s, int64_t b, int64_t kv_head, int64_t j) {
  return ((b * s.kv_heads + kv_head) * s.key_length + j) * s.head_dim;
}

int64_t ValueIndex(const AttentionShape& s, int64_t b, int64_t kv_head, int64_t j) {
  return ((b * s.kv_heads + kv_head) * s.key_length + j) * s.value_dim;
}

int64_t OutputIndex(const AttentionShape& s, int64_t b, int64_t h, int64_t i) {
  return RowIndex(s, b, h, i) * s.value_dim;
}

int64_t RowIndex(const AttentionShape& s, int64_t b, int64_t h, int64_t i) {
  return (b * s.query_heads + h) * s.query_length + i;
}

ProblemBytes::ProblemBytes(const AttentionProblem& problem, const ProblemValues& values)
    : query_(Encode(problem.type(), QueryExtent(problem), values.query, kMisalignment)),
      key_(Encode(problem.type(), KeyExtent(problem), values.key, kMisalignment)),
      value_(Encode(problem.type(), ValueExtent(problem), values.value, kMisalignment)) {}

core::AttentionInputs ProblemBytes::inputs() const { return {query(), key(), value()}; }

ProblemResults::ProblemResults(const AttentionProblem& problem)
    : output(problem.OutputBytes(), kUnwritten),
      weights(problem.WeightsBytes() / sizeof(float)),
      logsumexp(problem.LogsumexpBytes() / sizeof(float)) {
  // An empty vector has no address to fill at.
  if (!weights.empty()) std::memset(weights.data(), static_cast<int>(kUnwritten), weights.size() * sizeof(float));
  if (!logsumexp.empty()) std::memset(logsumexp.data(), static_cast<int>(kUnwritten), logsumexp.size() * sizeof(float));
}

core::AttentionResults ProblemResults::results() { return {output.data(), weights.data(), logsumexp.data()}; }

std::vector<float> ProblemResults::OutputValues(const AttentionProblem& problem) const {
  const int64_t size = core::ElementBytes(problem.type());
  std::vector<float> values(problem.OutputBytes() / size);
  ForEachElement(OutputExtent(problem), [&](int64_t index, int64_t place) {
    values.at(index) = ReadElement(problem.type(), output.data() + place * size);
  });
  return values;
}

std::string ProblemResults::FirstDifference(const ProblemResults& other) const {
  constexpr size_t kSize = sizeof(float);
  std::string text = DifferenceIn("output", output.data(), output.size(), other.output.data(), other.output.size());
  if (!text.empty()) return text;
  text = DifferenceIn("weights", weights.data(), weights.size() * kSize, other.weights.data(),
                      other.weights.size() * kSize);
  if (!text.empty()) return text;
  return DifferenceIn("logsumexp", logsumexp.data(), logsumexp.size() * kSize, other.logsumexp.data(),
                      other.logsumexp.size() * kSize);
}

std::string Describe(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  std::string text = absl::StrCat(core::ElementTypeName(problem.type()), " b", s.batch, " h", s.query_heads, "/",
                                  s.kv_heads, " q", s.query_length, " k", s.key_length);
  absl::StrAppend(&text, " d", s.head_dim, "/", s.value_dim);
  AppendOptions(problem, &text);
  return text;
}

}  // namespace attend::testing
