#include "tests/testing/problem_values.h"

#include <algorithm>
#include <array>
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

// The axes of one tensor as ProblemValues has them, and the layout that its bytes have.
struct Extent {
  int64_t batch;
  int64_t heads;
  int64_t length;
  int64_t dim;
  Layout layout;
};

Extent MakeExtent(const AttentionProblem& problem, int64_t heads, int64_t length, int64_t dim) {
  const Layout layout = problem.options().layout;
  return {layout == Layout::kTHD ? 1 : problem.shape().batch, heads, length, dim, layout};
}

// Where element 0 of a row lies in memory: by the layout's own words, not by the strides of what is tested.
int64_t RowPlace(const Extent& extent, int64_t b, int64_t h, int64_t i) {
  if (extent.layout == Layout::kBHND) return ((b * extent.heads + h) * extent.length + i) * extent.dim;
  return ((b * extent.length + i) * extent.heads + h) * extent.dim;
}

// Calls visit(index in ProblemValues, index in memory) for every element.
template <typename Visit>
void ForEachElement(const Extent& extent, Visit visit) {
  int64_t index = 0;
  for (int64_t b = 0; b < extent.batch; ++b) {
    for (int64_t row = 0; row < extent.heads * extent.length; ++row) {
      const int64_t start = RowPlace(extent, b, row / extent.length, row % extent.length);
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
  return MakeExtent(problem, s.query_heads, s.query_length, s.head_dim);
}

Extent KeyExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return MakeExtent(problem, s.kv_heads, s.key_length, s.head_dim);
}

Extent ValueExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return MakeExtent(problem, s.kv_heads, s.key_length, s.value_dim);
}

Extent OutputExtent(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return MakeExtent(problem, s.query_heads, s.query_length, s.value_dim);
}

std::vector<std::byte> EncodeBias(const AttentionProblem& problem, const std::vector<float>& bias,
                                  size_t misalignment) {
  if (!problem.options().bias.has_value()) return std::vector<std::byte>(misalignment);
  const Extent row = {1, 1, 1, static_cast<int64_t>(bias.size()), Layout::kBHND};
  return Encode(problem.options().bias->type, row, bias, misalignment);
}

std::vector<uint8_t> MisalignedMask(const std::vector<uint8_t>& mask) {
  std::vector<uint8_t> bytes(1 + mask.size());
  std::copy(mask.begin(), mask.end(), bytes.begin() + 1);
  return bytes;
}

// The place of a row among the rows of weights and scores.
std::optional<int64_t> WeightRow(const AttentionProblem& problem, int64_t query) {
  const std::vector<int64_t>& rows = problem.results().weight_query_rows;
  if (rows.empty()) return query;
  const auto found = std::find(rows.begin(), rows.end(), query);
  if (found == rows.end()) return std::nullopt;
  return found - rows.begin();
}

int64_t WeightRowCount(const AttentionProblem& problem) {
  const auto named = static_cast<int64_t>(problem.results().weight_query_rows.size());
  return named > 0 ? named : problem.shape().query_length;
}

int64_t KeyRowIndex(const AttentionProblem& problem, int64_t b, int64_t kv_head, int64_t j) {
  const AttentionShape& s = problem.shape();
  if (problem.options().layout == Layout::kTHD) return kv_head * s.key_length + problem.options().key_starts[b] + j;
  return (b * s.kv_heads + kv_head) * s.key_length + j;
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

std::string DescribeBroadcast(const core::BroadcastTensor& tensor) { return absl::StrJoin(tensor.shape, "x"); }

template <typename T>
void AppendList(const char* name, const std::vector<T>& values, std::string* text) {
  if (!values.empty()) absl::StrAppend(text, " ", name, "=", absl::StrJoin(values, ","));
}

void AppendMasks(const core::AttentionOptions& options, std::string* text) {
  if (options.causal == CausalAlignment::kTopLeft) absl::StrAppend(text, " causal=top_left");
  if (options.causal == CausalAlignment::kBottomRight) absl::StrAppend(text, " causal=bottom_right");
  AppendList("query_offset", options.query_offset, text);
  if (options.window_left != -1) absl::StrAppend(text, " window_left=", options.window_left);
  if (options.window_right != -1) absl::StrAppend(text, " window_right=", options.window_right);
  AppendList("key_lengths", options.key_lengths, text);
  if (options.mask.has_value()) absl::StrAppend(text, " mask=", DescribeBroadcast(*options.mask));
  if (options.bias.has_value()) {
    absl::StrAppend(text, " bias=", DescribeBroadcast(*options.bias), ":", core::ElementTypeName(options.bias->type));
  }
}

void AppendOptions(const core::AttentionOptions& options, std::string* text) {
  if (options.layout == Layout::kBNHD) absl::StrAppend(text, " BNHD");
  if (options.layout == Layout::kTHD) absl::StrAppend(text, " THD");
  AppendList("query_starts", options.query_starts, text);
  AppendList("key_starts", options.key_starts, text);
  if (options.scale.has_value()) absl::StrAppend(text, " scale=", *options.scale);
  if (options.softcap != 0) absl::StrAppend(text, " softcap=", options.softcap);
  AppendMasks(options, text);
  AppendList("alibi_slopes", options.alibi_slopes, text);
  AppendList("sinks", options.sinks, text);
  if (options.compute_type == core::ComputeType::kBFloat16) absl::StrAppend(text, " compute_type=bf16");
  if (options.output_type.has_value()) {
    absl::StrAppend(text, " output_type=", core::ElementTypeName(*options.output_type));
  }
}

void AppendResults(const core::ResultSelection& results, std::string* text) {
  if (results.weights) absl::StrAppend(text, " weights");
  AppendList("weight_query_rows", results.weight_query_rows, text);
  if (results.average_weights_over_heads) absl::StrAppend(text, " averaged");
  if (results.scores == core::ScoreStage::kScaled) absl::StrAppend(text, " scores=scaled");
  if (results.scores == core::ScoreStage::kSoftcapped) absl::StrAppend(text, " scores=softcapped");
  if (results.scores == core::ScoreStage::kMasked) absl::StrAppend(text, " scores=masked");
  if (results.logsumexp) absl::StrAppend(text, " logsumexp");
  if (results.omit_output) absl::StrAppend(text, " omit_output");
}

std::string DifferenceInFloats(const char* name, const std::vector<float>& a, const std::vector<float>& b) {
  return DifferenceIn(name, a.data(), a.size() * sizeof(float), b.data(), b.size() * sizeof(float));
}

// An empty vector has no address to fill at.
void FillUnwritten(std::vector<float>* values) {
  if (!values->empty()) std::memset(values->data(), static_cast<int>(kUnwritten), values->size() * sizeof(float));
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

int64_t QueryRows(const AttentionProblem& problem, int64_t b) {
  if (problem.options().layout != Layout::kTHD) return problem.shape().query_length;
  return problem.options().query_starts[b + 1] - problem.options().query_starts[b];
}

int64_t KeyRows(const AttentionProblem& problem, int64_t b) {
  if (problem.options().layout != Layout::kTHD) return problem.shape().key_length;
  return problem.options().key_starts[b + 1] - problem.options().key_starts[b];
}

std::vector<RowPosition> AllRows(const AttentionProblem& problem) {
  std::vector<RowPosition> rows;
  for (int64_t b = 0; b < problem.shape().batch; ++b) {
    for (int64_t h = 0; h < problem.shape().query_heads; ++h) {
      for (int64_t i = 0; i < QueryRows(problem, b); ++i) rows.push_back({b, h, i});
    }
  }
  return rows;
}

int64_t RowIndex(const AttentionProblem& problem, int64_t b, int64_t h, int64_t i) {
  const AttentionShape& s = problem.shape();
  if (problem.options().layout == Layout::kTHD) return h * s.query_length + problem.options().query_starts[b] + i;
  return (b * s.query_heads + h) * s.query_length + i;
}

int64_t QueryIndex(const AttentionProblem& problem, int64_t b, int64_t h, int64_t i) {
  return RowIndex(problem, b, h, i) * problem.shape().head_dim;
}

int64_t OutputIndex(const AttentionProblem& problem, int64_t b, int64_t h, int64_t i) {
  return RowIndex(problem, b, h, i) * problem.shape().value_dim;
}

int64_t KeyIndex(const AttentionProblem& problem, int64_t b, int64_t kv_head, int64_t j) {
  return KeyRowIndex(problem, b, kv_head, j) * problem.shape().head_dim;
}

int64_t ValueIndex(const AttentionProblem& problem, int64_t b, int64_t kv_head, int64_t j) {
  return KeyRowIndex(problem, b, kv_head, j) * problem.shape().value_dim;
}

std::optional<int64_t> ScoresIndex(const AttentionProblem& problem, const RowPosition& at) {
  const AttentionShape& s = problem.shape();
  const std::optional<int64_t> row = WeightRow(problem, at.query);
  if (!row.has_value()) return std::nullopt;
  return ((at.batch * s.query_heads + at.head) * WeightRowCount(problem) + *row) * s.key_length;
}

std::optional<int64_t> WeightsIndex(const AttentionProblem& problem, const RowPosition& at) {
  if (!problem.results().average_weights_over_heads) return ScoresIndex(problem, at);
  const std::optional<int64_t> row = WeightRow(problem, at.query);
  if (!row.has_value()) return std::nullopt;
  return (at.batch * WeightRowCount(problem) + *row) * problem.shape().key_length;
}

int64_t OutputPlace(const AttentionProblem& problem, const RowPosition& at) {
  const Extent extent = OutputExtent(problem);
  if (extent.layout != Layout::kTHD) return RowPlace(extent, at.batch, at.head, at.query);
  return RowPlace(extent, 0, at.head, problem.options().query_starts[at.batch] + at.query);
}

int64_t BroadcastIndex(const core::BroadcastTensor& tensor, const RowPosition& at, int64_t j) {
  const std::array<int64_t, 4> place = {at.batch, at.head, at.query, j};
  const size_t absent = place.size() - tensor.shape.size();  // axes at the left that the tensor does not have
  int64_t index = 0;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t length = tensor.shape[axis];
    index = index * length + (length == 1 ? 0 : place[absent + axis]);
  }
  return index;
}

ProblemBytes::ProblemBytes(const AttentionProblem& problem, const ProblemValues& values)
    : query_(Encode(problem.type(), QueryExtent(problem), values.query, kMisalignment)),
      key_(Encode(problem.type(), KeyExtent(problem), values.key, kMisalignment)),
      value_(Encode(problem.type(), ValueExtent(problem), values.value, kMisalignment)),
      mask_(MisalignedMask(values.mask)),
      bias_(EncodeBias(problem, values.bias, kMisalignment)) {}

core::AttentionInputs ProblemBytes::inputs() const { return {query(), key(), value(), mask(), bias()}; }

ProblemResults::ProblemResults(const AttentionProblem& problem)
    : output(problem.OutputBytes(), kUnwritten),
      weights(problem.WeightsBytes() / sizeof(float)),
      scores(problem.ScoresBytes() / sizeof(float)),
      logsumexp(problem.LogsumexpBytes() / sizeof(float)) {
  for (std::vector<float>* values : {&weights, &scores, &logsumexp}) FillUnwritten(values);
}

core::AttentionResults ProblemResults::results() {
  return {output.data(), weights.data(), scores.data(), logsumexp.data()};
}

std::vector<float> ProblemResults::OutputValues(const AttentionProblem& problem) const {
  if (problem.results().omit_output) return {};
  const ElementType type = problem.options().output_type.value_or(problem.type());
  const int64_t size = core::ElementBytes(type);
  std::vector<float> values(output.size() / size);
  ForEachElement(OutputExtent(problem), [&](int64_t index, int64_t place) {
    values.at(index) = ReadElement(type, output.data() + place * size);
  });
  return values;
}

std::string ProblemResults::FirstDifference(const ProblemResults& other) const {
  for (std::string text :
       {DifferenceIn("output", output.data(), output.size(), other.output.data(), other.output.size()),
        DifferenceInFloats("weights", weights, other.weights), DifferenceInFloats("scores", scores, other.scores),
        DifferenceInFloats("logsumexp", logsumexp, other.logsumexp)}) {
    if (!text.empty()) return text;
  }
  return "";
}

std::string Describe(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  std::string text = absl::StrCat(core::ElementTypeName(problem.type()), " b", s.batch, " h", s.query_heads, "/",
                                  s.kv_heads, " q", s.query_length, " k", s.key_length);
  absl::StrAppend(&text, " d", s.head_dim, "/", s.value_dim);
  AppendOptions(problem.options(), &text);
  AppendResults(problem.results(), &text);
  return text;
}

}  // namespace attend::testing
