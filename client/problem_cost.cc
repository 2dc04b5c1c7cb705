#include "client/problem_cost.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/element_rounding.h"
#include "client/tensor.h"

namespace attend::client {
namespace {

using Wide = absl::int128;

// Beside the tensors of a response: what the server keeps for types, shapes, timings and the request's id.
constexpr int64_t kResponseFields = 512;

std::optional<int64_t> Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

absl::Status Overflow(absl::string_view figure, std::initializer_list<int64_t> shape, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(figure, " of [", absl::StrJoin(shape, ", "), "] ", what, ": more than 2^63 - 1"));
}

// Bytes of a tensor; an error that names it if there are too many. `size` receives them.
absl::Status Measure(absl::string_view name, std::initializer_list<int64_t> shape, v1::DataType type, int64_t& size) {
  const std::optional<int64_t> elements = Product(shape);
  const std::optional<int64_t> bytes = elements ? Product({*elements, ElementBytes(type)}) : std::nullopt;
  if (!bytes) return Overflow(name, shape, absl::StrCat(DataTypeName(type), " has too many bytes"));
  size = *bytes;
  return absl::OkStatus();
}

// Where the keys that a query sees begin and end, relative to the query's number; beyond any key where nothing bounds
// them.
struct Reach {
  Wide begin;
  Wide end;
};

Reach ReachOf(const PlannedProblem& problem) {
  const Wide far = Wide{1} << 65;
  const Wide offset = problem.causal == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT
                          ? Wide{problem.axes.key_length} - problem.axes.query_length
                          : Wide{0};
  const bool causal = problem.causal != v1::CAUSAL_ALIGNMENT_NONE && problem.causal != v1::CAUSAL_ALIGNMENT_UNSPECIFIED;
  Reach reach = {.begin = -far, .end = far};
  if (problem.window_left >= 0) reach.begin = offset - problem.window_left;
  if (problem.window_right >= 0) reach.end = offset + problem.window_right + 1;
  if (causal) reach.end = std::min(reach.end, offset + 1);
  return reach;
}

// The sum over j in [0, count) of min(j, keys).
Wide SumUpTo(Wide count, Wide keys) {
  if (count <= 0) return 0;
  if (count <= keys) return count * (count - 1) / 2;
  return keys * (keys + 1) / 2 + (count - 1 - keys) * keys;
}

// The sum over the queries of how many keys lie before `reach` of each.
Wide SumOfKeys(const AxisLengths& axes, Wide reach) {
  const Wide first = std::clamp<Wide>(reach, -Wide{axes.query_length}, axes.key_length);
  return SumUpTo(first + axes.query_length, axes.key_length) - SumUpTo(first, axes.key_length);
}

absl::StatusOr<int64_t> MultiplyAdds(const PlannedProblem& problem) {
  const AxisLengths& axes = problem.axes;
  const Reach reach = ReachOf(problem);
  const Wide visible = SumOfKeys(axes, reach.end) - SumOfKeys(axes, reach.begin);
  const std::initializer_list<int64_t> shape = {axes.batch,      axes.query_heads, axes.query_length,
                                                axes.key_length, axes.head_dim,    axes.value_dim};
  const auto overflow = [&] {
    return Overflow("a problem [batch, query_heads, query_length, key_length, head_dim, value_dim]", shape,
                    "has too many multiply-adds");
  };
  if (visible > std::numeric_limits<int64_t>::max()) return overflow();
  const auto product =
      Product({static_cast<int64_t>(visible), axes.batch, axes.query_heads, axes.head_dim + axes.value_dim});
  if (!product) return overflow();
  return *product;
}

absl::StatusOr<TensorSizes> Sizes(const PlannedProblem& problem) {
  const AxisLengths& a = problem.axes;
  const v1::DataType type = problem.element_type;
  const int64_t weight_heads = problem.average_weights ? 1 : a.query_heads;
  TensorSizes sizes;
  const std::vector<absl::Status> measured = {
      Measure("query", {a.batch, a.query_heads, a.query_length, a.head_dim}, type, sizes.query),
      Measure("key", {a.batch, a.kv_heads, a.key_length, a.head_dim}, type, sizes.key),
      Measure("value", {a.batch, a.kv_heads, a.key_length, a.value_dim}, type, sizes.value),
      Measure("output", {a.batch, a.query_heads, a.query_length, a.value_dim}, problem.OutputType(), sizes.output),
      // Before the weights, which are no larger and perhaps not asked for.
      Measure("the N x N matrix", {a.batch, a.query_heads, a.query_length, a.key_length}, v1::DATA_TYPE_FLOAT32,
              sizes.scores),
      Measure("weights", {a.batch, weight_heads, a.query_length, a.key_length}, v1::DATA_TYPE_FLOAT32, sizes.weights),
      Measure("logsumexp", {a.batch, a.query_heads, a.query_length}, v1::DATA_TYPE_FLOAT32, sizes.logsumexp)};
  for (const absl::Status& status : measured) {
    if (!status.ok()) return status;
  }
  return sizes;
}

v1::AttendRequest Describe(const PlannedProblem& problem) {
  const AxisLengths& a = problem.axes;
  v1::AttendRequest request;
  const auto describe = [&](int64_t heads, int64_t length, int64_t dim, v1::Tensor& tensor) {
    tensor.set_data_type(problem.element_type);
    const std::vector<int64_t> shape = LayoutShape(problem.layout, a.batch, heads, length, dim);
    tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  };
  describe(a.query_heads, a.query_length, a.head_dim, *request.mutable_query());
  describe(a.kv_heads, a.key_length, a.head_dim, *request.mutable_key());
  describe(a.kv_heads, a.key_length, a.value_dim, *request.mutable_value());
  v1::AttentionOptions& options = *request.mutable_options();
  if (problem.layout != v1::LAYOUT_BHND) options.set_layout(problem.layout);
  if (problem.causal != v1::CAUSAL_ALIGNMENT_NONE) options.set_causal(problem.causal);
  if (problem.window_left >= 0) options.set_window_left(problem.window_left);
  if (problem.window_right >= 0) options.set_window_right(problem.window_right);
  options.set_compute_type(problem.compute_type);
  options.set_output_type(problem.output_type);
  v1::ResultSelection& results = *request.mutable_results();
  results.set_weights(problem.weights);
  results.set_average_weights_over_heads(problem.average_weights);
  if (problem.scores != v1::SCORE_STAGE_NONE) results.set_scores(problem.scores);
  results.set_logsumexp(problem.logsumexp);
  results.set_omit_output(problem.omit_output);
  return request;
}

// Bytes of a number as protobuf writes it.
int64_t VarintBytes(uint64_t number) {
  int64_t bytes = 1;
  for (; number >= 0x80; number >>= 7) ++bytes;
  return bytes;
}

// How much longer `tensor`, a field of its message, is with `data` bytes of data.
int64_t DataField(const v1::Tensor& tensor, int64_t data) {
  const auto without = static_cast<int64_t>(tensor.ByteSizeLong());
  const int64_t added = 1 + VarintBytes(static_cast<uint64_t>(data)) + data;
  return added + VarintBytes(static_cast<uint64_t>(without + added)) - VarintBytes(static_cast<uint64_t>(without));
}

}  // namespace

KeyPositions VisibleKeys(const PlannedProblem& problem, int64_t i) {
  const Reach reach = ReachOf(problem);
  const Wide keys = problem.axes.key_length;
  return {.begin = static_cast<int64_t>(std::clamp<Wide>(reach.begin + i, 0, keys)),
          .end = static_cast<int64_t>(std::clamp<Wide>(reach.end + i, 0, keys))};
}

absl::StatusOr<ProblemCost> CostOf(const PlannedProblem& problem) {
  const auto sizes = Sizes(problem);
  if (!sizes.ok()) return sizes.status();
  const auto multiply_adds = MultiplyAdds(problem);
  if (!multiply_adds.ok()) return multiply_adds.status();
  ProblemCost cost = {.multiply_adds = *multiply_adds,
                      .scores_per_head = problem.axes.query_length * problem.axes.key_length,
                      .score_matrix = sizes->scores,
                      .sizes = *sizes};
  if (problem.omit_output) cost.sizes.output = 0;
  if (!problem.weights) cost.sizes.weights = 0;
  if (problem.scores == v1::SCORE_STAGE_NONE) cost.sizes.scores = 0;
  if (!problem.logsumexp) cost.sizes.logsumexp = 0;
  Wide sum = 0;
  for (const int64_t bytes : {cost.sizes.query, cost.sizes.key, cost.sizes.value, cost.sizes.output, cost.sizes.weights,
                              cost.sizes.scores, cost.sizes.logsumexp, 2 * kResponseFields}) {
    sum += bytes;
  }
  if (sum > std::numeric_limits<int64_t>::max()) {
    return absl::InvalidArgumentError("inputs and results together have too many bytes: more than 2^63 - 1");
  }
  const v1::AttendRequest request = Describe(problem);
  cost.request_message = static_cast<int64_t>(request.ByteSizeLong()) + DataField(request.query(), cost.sizes.query) +
                         DataField(request.key(), cost.sizes.key) + DataField(request.value(), cost.sizes.value);
  cost.response_message = kResponseFields + cost.sizes.results();
  return cost;
}

}  // namespace attend::client
