#include "core/problem_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/violation.h"

namespace attend::core {
namespace {

// The first that is not OK.
absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t least, absl::string_view reason) {
  if (value >= least) return absl::OkStatus();
  return InvalidArgument({.field = std::string(field),
                          .reason = std::string(reason),
                          .value = absl::StrCat(value),
                          .limit = absl::StrCat("at least ", least)});
}

absl::Status CheckDim(absl::string_view field, int64_t value) {
  if (value >= 1 && value <= kMaxHeadDim) return absl::OkStatus();
  return InvalidArgument({.field = std::string(field),
                          .reason = "DIM_OUT_OF_RANGE",
                          .value = absl::StrCat(value),
                          .limit = absl::StrCat("in [1, ", kMaxHeadDim, "]")});
}

absl::Status CheckAxes(const AttentionShape& shape) {
  absl::Status status = FirstError({CheckRange("batch", shape.batch, 0, "LENGTH_OUT_OF_RANGE"),
                                    CheckRange("query_heads", shape.query_heads, 1, "HEADS_OUT_OF_RANGE"),
                                    CheckRange("kv_heads", shape.kv_heads, 1, "HEADS_OUT_OF_RANGE"),
                                    CheckRange("query_length", shape.query_length, 0, "LENGTH_OUT_OF_RANGE"),
                                    CheckRange("key_length", shape.key_length, 0, "LENGTH_OUT_OF_RANGE"),
                                    CheckDim("head_dim", shape.head_dim), CheckDim("value_dim", shape.value_dim)});
  if (!status.ok()) return status;
  if (shape.query_heads % shape.kv_heads != 0) {
    return InvalidArgument({.field = "query_heads",
                            .reason = "HEADS_NOT_DIVISIBLE",
                            .value = absl::StrCat(shape.query_heads),
                            .limit = absl::StrCat("a multiple of kv_heads, ", shape.kv_heads)});
  }
  return absl::OkStatus();
}

// An element of a list, or a number of its own.
absl::Status CheckNumber(absl::string_view field, float value, bool good, absl::string_view reason,
                         absl::string_view limit) {
  if (good) return absl::OkStatus();
  return InvalidArgument({.field = std::string(field),
                          .reason = std::string(reason),
                          .value = absl::StrCat(value),
                          .limit = std::string(limit)});
}

// A list that may be left out has one element for each `of`.
absl::Status CheckCount(absl::string_view field, int64_t count, int64_t wanted, absl::string_view of,
                        absl::string_view reason) {
  if (count == 0 || count == wanted) return absl::OkStatus();
  const Violation violation = {.field = std::string(field),
                               .reason = std::string(reason),
                               .value = absl::StrCat(count),
                               .limit = absl::StrCat(wanted)};
  return InvalidArgument(violation, absl::StrCat(field, " has ", count, " elements, must have one for each of the ",
                                                 wanted, " ", of, ", or none"));
}

absl::Status CheckKeyLengths(const AttentionShape& shape, const std::vector<int64_t>& lengths) {
  const auto count = static_cast<int64_t>(lengths.size());
  absl::Status status = CheckCount("key_lengths", count, shape.batch, "batch elements", "KEY_LENGTHS_COUNT");
  for (int64_t b = 0; b < count && status.ok(); ++b) {
    if (lengths[b] >= 0 && lengths[b] <= shape.key_length) continue;
    status = InvalidArgument({.field = absl::StrCat("key_lengths[", b, "]"),
                              .reason = "KEY_LENGTH_OUT_OF_RANGE",
                              .value = absl::StrCat(lengths[b]),
                              .limit = absl::StrCat("in [0, ", shape.key_length, "]")});
  }
  return status;
}

absl::Status CheckSlopes(const AttentionShape& shape, const std::vector<float>& slopes) {
  const auto count = static_cast<int64_t>(slopes.size());
  absl::Status status = CheckCount("alibi_slopes", count, shape.query_heads, "query_heads", "SLOPES_COUNT");
  for (int64_t h = 0; h < count && status.ok(); ++h) {
    if (std::isfinite(slopes[h])) continue;  // its name takes longer to make than to check it
    status = CheckNumber(absl::StrCat("alibi_slopes[", h, "]"), slopes[h], false, "SLOPE_NOT_FINITE", "finite");
  }
  return status;
}

absl::Status CheckSinks(const AttentionShape& shape, const std::vector<float>& sinks) {
  const auto count = static_cast<int64_t>(sinks.size());
  absl::Status status = CheckCount("sinks", count, shape.query_heads, "query_heads", "SINKS_COUNT");
  for (int64_t h = 0; h < count && status.ok(); ++h) {
    if (sinks[h] < std::numeric_limits<float>::infinity()) continue;
    status = CheckNumber(absl::StrCat("sinks[", h, "]"), sinks[h], false, "SINK_OUT_OF_RANGE", "finite or -inf");
  }
  return status;
}

// The field is what an option or result is asked for by, `limit` what is demanded of it.
absl::Status Contradiction(absl::string_view field, absl::string_view value, absl::string_view limit) {
  return InvalidArgument({.field = std::string(field),
                          .reason = "OPTIONS_CONTRADICT",
                          .value = std::string(value),
                          .limit = std::string(limit)});
}

absl::Status CheckStarts(absl::string_view field, const std::vector<int64_t>& starts, int64_t batch, int64_t total) {
  const auto count = static_cast<int64_t>(starts.size());
  // Compared without a sum that could overflow.
  if (count == 0 || count - 1 != batch) {
    const Violation violation = {
        .field = std::string(field), .reason = "STARTS_COUNT", .value = absl::StrCat(count), .limit = "batch + 1"};
    return InvalidArgument(violation,
                           absl::StrCat(field, " has ", count, " elements, must have batch + 1, batch is ", batch));
  }
  const auto out_of_order = [&](int64_t at, std::string limit) {
    return InvalidArgument({.field = absl::StrCat(field, "[", at, "]"),
                            .reason = "STARTS_OUT_OF_ORDER",
                            .value = absl::StrCat(starts[at]),
                            .limit = std::move(limit)});
  };
  if (starts[0] != 0) return out_of_order(0, "0");
  for (int64_t at = 1; at < count; ++at) {
    if (starts[at] < starts[at - 1]) {
      return out_of_order(at, absl::StrCat("at least the one before it, ", starts[at - 1]));
    }
  }
  if (starts[batch] != total) return out_of_order(batch, absl::StrCat(total, ", the total length"));
  return absl::OkStatus();
}

absl::Status CheckRaggedLayout(const AttentionShape& shape, const AttentionOptions& options,
                               const ResultSelection& results) {
  constexpr absl::string_view kAbsent = "absent in layout THD";
  if (!options.key_lengths.empty()) {
    return Contradiction("key_lengths", "present",
                         "absent in layout THD, where key_starts says how many keys there are");
  }
  if (options.mask.has_value()) return Contradiction("mask", "present", kAbsent);
  if (options.bias.has_value()) return Contradiction("bias", "present", kAbsent);
  if (results.weights) return Contradiction("weights", "asked for", kAbsent);
  if (results.scores != ScoreStage::kNone) return Contradiction("scores", "asked for", kAbsent);
  return FirstError({CheckStarts("query_starts", options.query_starts, shape.batch, shape.query_length),
                     CheckStarts("key_starts", options.key_starts, shape.batch, shape.key_length)});
}

absl::Status CheckLayout(const AttentionShape& shape, const AttentionOptions& options, const ResultSelection& results) {
  if (options.layout == Layout::kTHD) return CheckRaggedLayout(shape, options, results);
  constexpr absl::string_view kOnlyRagged = "absent but in layout THD";
  if (!options.query_starts.empty()) return Contradiction("query_starts", "present", kOnlyRagged);
  if (!options.key_starts.empty()) return Contradiction("key_starts", "present", kOnlyRagged);
  return absl::OkStatus();
}

absl::Status CheckBroadcast(absl::string_view field, const AttentionShape& shape,
                            const std::optional<BroadcastTensor>& tensor) {
  if (!tensor.has_value()) return absl::OkStatus();
  const std::vector<int64_t>& axes = tensor->shape;
  const auto refuse = [](std::string name, std::string value, std::string limit) {
    return InvalidArgument({.field = std::move(name),
                            .reason = "NOT_BROADCASTABLE",
                            .value = std::move(value),
                            .limit = std::move(limit)});
  };
  if (axes.size() < 2 || axes.size() > 4) {
    return refuse(absl::StrCat(field, ".shape"), absl::StrCat("of rank ", axes.size()),
                  "of rank 2 (query_length, key_length), 3 (with query_heads) or 4 (with batch)");
  }
  const std::array<int64_t, 4> scores = {shape.batch, shape.query_heads, shape.query_length, shape.key_length};
  constexpr std::array<absl::string_view, 4> kNames = {"batch", "query_heads", "query_length", "key_length"};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = i + 4 - axes.size();
    const int64_t length = scores[axis];
    if (axes[i] == 1 || axes[i] == length) continue;
    return refuse(absl::StrCat(field, ".shape[", i, "]"), absl::StrCat(axes[i]),
                  absl::StrCat("1 or ", kNames[axis], ", ", length));
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(ElementType type, const AttentionOptions& options) {
  if (options.compute_type == ComputeType::kBFloat16 && type == ElementType::kFloat16) {
    return InvalidArgument({.field = "compute_type",
                            .reason = "COMPUTE_TYPE_MISMATCH",
                            .value = "bf16",
                            .limit = "that of the inputs where those are f16"});
  }
  const ElementType output = options.output_type.value_or(type);
  if (output != type && output != ElementType::kFloat32) {
    return InvalidArgument({.field = "output_type",
                            .reason = "OUTPUT_TYPE_MISMATCH",
                            .value = std::string(ElementTypeName(output)),
                            .limit = absl::StrCat("f32 or that of the inputs, ", ElementTypeName(type))});
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const AttentionShape& shape, ElementType type, const AttentionOptions& options) {
  const float scale = options.scale.value_or(1);
  return FirstError({CheckNumber("scale", scale, std::isfinite(scale), "SCALE_NOT_FINITE", "finite"),
                     CheckNumber("softcap", options.softcap, std::isfinite(options.softcap) && options.softcap >= 0,
                                 "SOFTCAP_OUT_OF_RANGE", "finite, 0 (none) or more"),
                     CheckCount("query_offset", static_cast<int64_t>(options.query_offset.size()), shape.batch,
                                "batch elements", "QUERY_OFFSET_COUNT"),
                     CheckRange("window_left", options.window_left, -1, "WINDOW_OUT_OF_RANGE"),
                     CheckRange("window_right", options.window_right, -1, "WINDOW_OUT_OF_RANGE"),
                     CheckKeyLengths(shape, options.key_lengths), CheckBroadcast("mask", shape, options.mask),
                     CheckBroadcast("bias", shape, options.bias), CheckSlopes(shape, options.alibi_slopes),
                     CheckSinks(shape, options.sinks), CheckTypes(type, options)});
}

// Which of `rows`, all in [0, length), is the first that was there before; their number if none was. There may be a
// million of them, in a request that costs its sender nothing else: a bit for each query is looked up far faster than a
// set of rows, and is no larger than the rows themselves unless those are few among very many queries.
size_t FindRepeated(const std::vector<int64_t>& rows, int64_t length) {
  constexpr int64_t kBitsPerRow = 64;
  if (length / kBitsPerRow <= static_cast<int64_t>(rows.size())) {
    std::vector<bool> seen(static_cast<size_t>(length));
    return static_cast<size_t>(std::find_if(rows.begin(), rows.end(),
                                            [&seen](int64_t row) {
                                              const bool repeated = seen[row];
                                              seen[row] = true;
                                              return repeated;
                                            }) -
                               rows.begin());
  }
  std::unordered_set<int64_t> seen(rows.size());
  return static_cast<size_t>(
      std::find_if(rows.begin(), rows.end(), [&seen](int64_t row) { return !seen.insert(row).second; }) - rows.begin());
}

absl::Status CheckQueryRows(const AttentionShape& shape, const std::vector<int64_t>& rows) {
  const auto refuse = [&rows](size_t at, absl::string_view reason, const std::string& limit) {
    return InvalidArgument({.field = absl::StrCat("weight_query_rows[", at, "]"),
                            .reason = std::string(reason),
                            .value = absl::StrCat(rows[at]),
                            .limit = limit});
  };
  const auto outside =
      std::find_if(rows.begin(), rows.end(), [&shape](int64_t row) { return row < 0 || row >= shape.query_length; });
  if (outside != rows.end()) {
    return refuse(outside - rows.begin(), "QUERY_ROW_OUT_OF_RANGE", absl::StrCat("in [0, ", shape.query_length, ")"));
  }
  const size_t repeated = FindRepeated(rows, shape.query_length);
  if (repeated == rows.size()) return absl::OkStatus();
  return refuse(repeated, "QUERY_ROW_TWICE", "a row that is not listed before");
}

absl::Status CheckResults(const AttentionShape& shape, const ResultSelection& results) {
  const bool scores = results.scores != ScoreStage::kNone;
  if (!results.weight_query_rows.empty() && !results.weights && !scores) {
    return Contradiction("weight_query_rows", "present", "absent where neither weights nor scores are asked for");
  }
  if (results.average_weights_over_heads && !results.weights) {
    return Contradiction("average_weights_over_heads", "true", "false where no weights are asked for");
  }
  if (results.omit_output && !results.weights && !scores && !results.logsumexp) {
    return Contradiction("omit_output", "true", "false where no other result is asked for");
  }
  return CheckQueryRows(shape, results.weight_query_rows);
}

// Whether the product of factors >= 0 is at most 2^63 - 1. A zero makes it 0 wherever it stands, also behind factors
// that overflow on their own.
bool ProductFits(std::initializer_list<int64_t> factors) {
  if (std::find(factors.begin(), factors.end(), 0) != factors.end()) return true;
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return false;
  }
  return true;
}

// A tensor whose axes are batch, heads, rows and columns, the middle two in either order. Its bytes fit, and so do the
// strides in bytes, which a zero among the other axes would hide.
absl::Status CheckTensorSize(absl::string_view field, const std::initializer_list<int64_t>& axes,
                             int64_t element_bytes) {
  const int64_t batch = axes.begin()[0];
  const int64_t heads = axes.begin()[1];
  const int64_t rows = axes.begin()[2];
  const int64_t columns = axes.begin()[3];
  if (ProductFits({batch, heads, rows, columns, element_bytes}) && ProductFits({heads, rows, columns, element_bytes}) &&
      ProductFits({heads, columns, element_bytes}) && ProductFits({rows, columns, element_bytes}) &&
      ProductFits({batch, heads})) {
    return absl::OkStatus();
  }
  const Violation violation = {.field = std::string(field),
                               .reason = "SIZE_OVERFLOW",
                               .value = absl::StrCat("[", absl::StrJoin(axes, ", "), "]"),
                               .limit = "2^63 - 1 bytes"};
  return InvalidArgument(violation, absl::StrCat(field, " has shape ", violation.value, " of ", element_bytes,
                                                 "-byte elements, must be at most 2^63 - 1 bytes"));
}

absl::Status CheckBroadcastSize(absl::string_view field, const std::optional<BroadcastTensor>& tensor,
                                int64_t element_bytes) {
  if (!tensor.has_value()) return absl::OkStatus();
  std::array<int64_t, 4> axes = {1, 1, 1, 1};
  std::copy(tensor->shape.begin(), tensor->shape.end(), axes.end() - tensor->shape.size());
  return CheckTensorSize(field, {axes[0], axes[1], axes[2], axes[3]}, element_bytes);
}

absl::Status CheckSizes(const AttentionShape& s, ElementType type, const AttentionOptions& options,
                        const ResultSelection& results) {
  constexpr int64_t kFloatBytes = 4;
  const int64_t bytes = ElementBytes(type);
  // In layout THD the lengths are those of all sequences together.
  const int64_t batch = options.layout == Layout::kTHD ? 1 : s.batch;
  const int64_t rows =
      results.weight_query_rows.empty() ? s.query_length : static_cast<int64_t>(results.weight_query_rows.size());
  const int64_t weight_heads = results.average_weights_over_heads ? 1 : s.query_heads;
  const auto check_if = [](bool asked, absl::string_view field, const std::initializer_list<int64_t>& axes) {
    return asked ? CheckTensorSize(field, axes, kFloatBytes) : absl::OkStatus();
  };
  absl::Status status =
      FirstError({CheckTensorSize("query", {batch, s.query_heads, s.query_length, s.head_dim}, bytes),
                  CheckTensorSize("key", {batch, s.kv_heads, s.key_length, s.head_dim}, bytes),
                  CheckTensorSize("value", {batch, s.kv_heads, s.key_length, s.value_dim}, bytes),
                  CheckTensorSize("output", {batch, s.query_heads, s.query_length, s.value_dim},
                                  ElementBytes(options.output_type.value_or(type))),
                  CheckBroadcastSize("mask", options.mask, 1),
                  options.bias.has_value() ? CheckBroadcastSize("bias", options.bias, ElementBytes(options.bias->type))
                                           : absl::OkStatus(),
                  check_if(results.weights, "weights", {batch, weight_heads, rows, s.key_length}),
                  check_if(results.scores != ScoreStage::kNone, "scores", {batch, s.query_heads, rows, s.key_length}),
                  check_if(results.logsumexp, "logsumexp", {batch, s.query_heads, s.query_length, 1})});
  if (!status.ok() || ProductFits({s.batch, s.query_heads})) return status;
  return CheckTensorSize("query", {s.batch, s.query_heads, s.query_length, s.head_dim}, bytes);
}

}  // namespace

absl::Status CheckProblem(const AttentionShape& shape, ElementType type, const AttentionOptions& options,
                          const ResultSelection& results) {
  if (absl::Status status = CheckAxes(shape); !status.ok()) return status;
  if (absl::Status status = CheckLayout(shape, options, results); !status.ok()) return status;
  if (absl::Status status = CheckOptions(shape, type, options); !status.ok()) return status;
  if (absl::Status status = CheckResults(shape, results); !status.ok()) return status;
  return CheckSizes(shape, type, options, results);
}

}  // namespace attend::core
