// Whatever shape and options are asked for: they are refused with a reason and a field, or make a problem whose sizes
// and ranges of keys hold together. (Requests of protobuf hardly reach the far ends of int64: lists cost bytes there.)
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/attention_problem.h"
#include "core/violation.h"
#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// Takes values from bytes; zeros beyond their end.
class ByteReader {
 public:
  ByteReader(const uint8_t* bytes, size_t size) : bytes_(bytes), left_(size) {}

  template <typename T>
  T Raw() {
    T value = {};
    const size_t count = std::min(sizeof(T), left_);
    if (count > 0) std::memcpy(&value, bytes_, count);
    bytes_ += count;
    left_ -= count;
    return value;
  }

  // In [0, count).
  int Choice(int count) { return Raw<uint8_t>() % count; }

  // Small, near a power of two, or any.
  int64_t Number() {
    const auto kind = Raw<uint8_t>();
    if (kind < 160) return kind % 10 - 1;
    if (kind < 224) return static_cast<int64_t>((uint64_t{1} << (kind % 64)) - Raw<uint8_t>() % 2);
    return Raw<int64_t>();
  }

  std::vector<int64_t> Numbers() {
    std::vector<int64_t> numbers(static_cast<size_t>(Choice(6)));
    for (int64_t& number : numbers) number = Number();
    return numbers;
  }

  std::vector<float> Floats() {
    std::vector<float> floats(static_cast<size_t>(Choice(6)));
    for (float& number : floats) number = Raw<float>();
    return floats;
  }

  std::optional<core::BroadcastTensor> Broadcast() {
    if (Choice(3) > 0) return std::nullopt;
    return core::BroadcastTensor{.shape = Numbers(), .type = Type()};
  }

  core::ElementType Type() {
    constexpr core::ElementType kTypes[] = {core::ElementType::kFloat32, core::ElementType::kBFloat16,
                                            core::ElementType::kFloat16};
    return kTypes[Choice(3)];
  }

 private:
  const uint8_t* bytes_;
  size_t left_;
};

core::AttentionShape ReadShape(ByteReader& bytes) {
  core::AttentionShape shape;
  for (int64_t* const length : {&shape.batch, &shape.query_heads, &shape.kv_heads, &shape.query_length,
                                &shape.key_length, &shape.head_dim, &shape.value_dim}) {
    *length = bytes.Number();
  }
  return shape;
}

core::AttentionOptions ReadOptions(ByteReader& bytes) {
  core::AttentionOptions options;
  options.layout = static_cast<core::Layout>(bytes.Choice(3));
  if (bytes.Choice(4) == 0) options.scale = bytes.Raw<float>();
  if (bytes.Choice(4) == 0) options.softcap = bytes.Raw<float>();
  options.causal = static_cast<core::CausalAlignment>(bytes.Choice(3));
  if (bytes.Choice(2) == 0) options.query_offset = bytes.Numbers();
  if (bytes.Choice(2) == 0) options.window_left = bytes.Number();
  if (bytes.Choice(2) == 0) options.window_right = bytes.Number();
  if (bytes.Choice(2) == 0) options.key_lengths = bytes.Numbers();
  if (options.layout == core::Layout::kTHD) {
    options.query_starts = bytes.Numbers();
    options.key_starts = bytes.Numbers();
  }
  options.mask = bytes.Broadcast();
  options.bias = bytes.Broadcast();
  if (bytes.Choice(4) == 0) options.alibi_slopes = bytes.Floats();
  if (bytes.Choice(4) == 0) options.sinks = bytes.Floats();
  options.compute_type = static_cast<core::ComputeType>(bytes.Choice(2));
  if (bytes.Choice(4) == 0) options.output_type = bytes.Type();
  return options;
}

core::ResultSelection ReadResults(ByteReader& bytes) {
  core::ResultSelection results;
  results.weights = bytes.Choice(2) == 0;
  if (bytes.Choice(3) == 0) results.weight_query_rows = bytes.Numbers();
  results.average_weights_over_heads = bytes.Choice(4) == 0;
  results.scores = static_cast<core::ScoreStage>(bytes.Choice(4));
  results.logsumexp = bytes.Choice(2) == 0;
  results.omit_output = bytes.Choice(4) == 0;
  return results;
}

// What is wrong with the problem; empty if nothing is.
std::string WrongProblem(const core::AttentionProblem& problem, ByteReader& bytes) {
  const int64_t sizes[] = {problem.QueryBytes(),   problem.KeyBytes(),    problem.ValueBytes(),
                           problem.MaskBytes(),    problem.BiasBytes(),   problem.OutputBytes(),
                           problem.WeightsBytes(), problem.ScoresBytes(), problem.LogsumexpBytes(),
                           problem.MultiplyAdds()};
  if (*std::min_element(std::begin(sizes), std::end(sizes)) < 0) return "a negative size";
  const core::AttentionShape& shape = problem.shape();
  if (shape.batch == 0) return "";
  const auto b = static_cast<int64_t>(bytes.Raw<uint64_t>() % static_cast<uint64_t>(shape.batch));
  const int64_t queries = problem.QueryCount(b);
  const int64_t keys = problem.KeyCount(b);
  if (queries < 0 || queries > shape.query_length || keys < 0 || keys > shape.key_length) return "counts out of range";
  if (queries == 0) return "";
  const auto i = static_cast<int64_t>(bytes.Raw<uint64_t>() % static_cast<uint64_t>(queries));
  const core::KeyRange range = problem.VisibleKeys(b, i);
  const core::KeyRange next = problem.VisibleKeys(b, std::min(i, kLargest - 1) + 1 < queries ? i + 1 : i);
  if (range.begin < 0 || range.begin > range.end || range.end > keys) return "visible keys out of range";
  if (next.begin < range.begin || next.end < range.end) return "visible keys that go back";
  const core::KeyRange seen = problem.SeenKeys(b);
  if (range.count() > 0 && (range.begin < seen.begin || range.end > seen.end)) return "visible keys that are not seen";
  if (range.count() > 0 && problem.MultiplyAdds() == 0) return "visible keys that cost nothing";
  return "";
}

std::string WrongAnswer(ByteReader bytes) {
  const core::AttentionShape shape = ReadShape(bytes);
  const core::ElementType type = bytes.Type();
  core::AttentionOptions options = ReadOptions(bytes);
  const auto problem = core::AttentionProblem::Create(shape, type, std::move(options), ReadResults(bytes));
  if (problem.ok()) return WrongProblem(*problem, bytes);
  if (!absl::IsInvalidArgument(problem.status())) return "refused with an unexpected code";
  const std::optional<core::Violation> violation = core::GetViolation(problem.status());
  if (!violation.has_value() || violation->reason.empty() || violation->field.empty()) {
    return absl::StrCat("refused without a reason or a field: ", problem.status().message());
  }
  return "";
}

}  // namespace

// Bytes that make a legal problem, by ReadShape and what follows: choices that take the first alternative, or the last.
std::vector<std::string> SeedInputs() {
  std::string small(7, 3);  // lengths, heads and dims of 2
  std::string large = std::string(3, 2) + std::string(2, static_cast<char>(160 + 40)) + std::string(2, 5);
  return {small + std::string(40, 1), small + std::string(80, 0), large + std::string(40, 1),
          large + std::string(40, 5), small + '\0' + '\2' + std::string(60, 1)};
}

}  // namespace attend::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string wrong = attend::fuzz::WrongAnswer({bytes, size});
  if (wrong.empty()) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(bytes), size);
  attend::fuzz::BrokenPromise(absl::StrCat(wrong, " for the bytes ", absl::BytesToHexString(input)));
}
