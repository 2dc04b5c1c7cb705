#include "tests/integration/wire_problem.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::Layout;

// A tensor as it came, from a message or from the client library.
struct Received {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

Received FromClient(const client::Tensor& tensor) { return {tensor.data_type(), tensor.shape(), tensor.data()}; }

Received FromMessage(bool present, const v1::Tensor& tensor) {
  if (!present) return {};
  return {tensor.data_type(),
          {tensor.shape().begin(), tensor.shape().end()},
          std::as_bytes(std::span(tensor.data().data(), tensor.data().size()))};
}

struct Wanted {
  const char* name;
  v1::DataType type;
  std::vector<int64_t> shape;
  std::span<std::byte> to;
};

std::vector<int64_t> InLayout(Layout layout, int64_t batch, int64_t heads, int64_t length, int64_t dim) {
  switch (layout) {
    case Layout::kBHND:
      return {batch, heads, length, dim};
    case Layout::kBNHD:
      return {batch, length, heads, dim};
    case Layout::kTHD:
      return {length, heads, dim};
  }
  return {};
}

std::vector<int64_t> QueryShape(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.query_heads, s.query_length, s.head_dim);
}

std::vector<int64_t> KeyShape(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.kv_heads, s.key_length, s.head_dim);
}

std::vector<int64_t> ValueShape(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  return InLayout(problem.options().layout, s.batch, s.kv_heads, s.key_length, s.value_dim);
}

absl::Status Take(const Wanted& wanted, const Received& received) {
  if (received.type != wanted.type) {
    return absl::InternalError(absl::StrCat(wanted.name, " has type ", v1::DataType_Name(received.type), ", must be ",
                                            v1::DataType_Name(wanted.type)));
  }
  if (received.shape != wanted.shape) {
    return absl::InternalError(absl::StrCat(wanted.name, " has shape ", absl::StrJoin(received.shape, ","),
                                            ", must be ", absl::StrJoin(wanted.shape, ",")));
  }
  if (received.bytes.size() != wanted.to.size()) {
    return absl::InternalError(
        absl::StrCat(wanted.name, " has ", received.bytes.size(), " bytes, must have ", wanted.to.size()));
  }
  if (!wanted.to.empty()) std::memcpy(wanted.to.data(), received.bytes.data(), wanted.to.size());
  return absl::OkStatus();
}

// What the contract says of each result: shapes are worked out here again.
std::vector<int64_t> WeightsShape(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  const std::vector<int64_t>& rows = problem.results().weight_query_rows;
  const int64_t row_count = rows.empty() ? s.query_length : static_cast<int64_t>(rows.size());
  if (problem.results().average_weights_over_heads) return {s.batch, row_count, s.key_length};
  return {s.batch, s.query_heads, row_count, s.key_length};
}

std::vector<int64_t> ScoresShape(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  const std::vector<int64_t>& rows = problem.results().weight_query_rows;
  return {s.batch, s.query_heads, rows.empty() ? s.query_length : static_cast<int64_t>(rows.size()), s.key_length};
}

std::vector<int64_t> LogsumexpShape(const AttentionProblem& problem) {
  const AttentionShape& s = problem.shape();
  if (problem.options().layout == Layout::kTHD) return {s.query_heads, s.query_length};
  return {s.batch, s.query_heads, s.query_length};
}

struct ReceivedResults {
  Received output;
  Received weights;
  Received scores;
  Received logsumexp;
};

absl::StatusOr<ProblemResults> TakeAll(const AttentionProblem& problem, const ReceivedResults& received) {
  const AttentionShape& s = problem.shape();
  const core::ResultSelection& asked = problem.results();
  ProblemResults results(problem);
  // A result that was not asked for has neither type nor shape nor bytes.
  const auto wanted = [](const char* name, bool asked_for, v1::DataType type, std::vector<int64_t> shape,
                         std::span<std::byte> to) {
    return asked_for ? Wanted{name, type, std::move(shape), to} : Wanted{name, v1::DATA_TYPE_UNSPECIFIED, {}, to};
  };
  const auto bytes = [](std::vector<float>& tensor) { return std::as_writable_bytes(std::span(tensor)); };
  constexpr v1::DataType kFloat = v1::DATA_TYPE_FLOAT32;
  for (const absl::Status& status : {
           Take(wanted("output", !asked.omit_output, WireType(problem.options().output_type.value_or(problem.type())),
                       InLayout(problem.options().layout, s.batch, s.query_heads, s.query_length, s.value_dim),
                       results.output),
                received.output),
           Take(wanted("weights", asked.weights, kFloat, WeightsShape(problem), bytes(results.weights)),
                received.weights),
           Take(wanted("scores", asked.scores != core::ScoreStage::kNone, kFloat, ScoresShape(problem),
                       bytes(results.scores)),
                received.scores),
           Take(wanted("logsumexp", asked.logsumexp, kFloat, LogsumexpShape(problem), bytes(results.logsumexp)),
                received.logsumexp),
       }) {
    if (!status.ok()) return status;
  }
  return results;
}

v1::Layout WireLayout(Layout layout) {
  switch (layout) {
    case Layout::kBHND:
      return v1::LAYOUT_BHND;
    case Layout::kBNHD:
      return v1::LAYOUT_BNHD;
    case Layout::kTHD:
      return v1::LAYOUT_THD;
  }
  return v1::LAYOUT_UNSPECIFIED;
}

v1::CausalAlignment WireCausal(CausalAlignment causal) {
  switch (causal) {
    case CausalAlignment::kNone:
      return v1::CAUSAL_ALIGNMENT_NONE;
    case CausalAlignment::kTopLeft:
      return v1::CAUSAL_ALIGNMENT_TOP_LEFT;
    case CausalAlignment::kBottomRight:
      return v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT;
  }
  return v1::CAUSAL_ALIGNMENT_UNSPECIFIED;
}

v1::ScoreStage WireStage(core::ScoreStage stage) {
  switch (stage) {
    case core::ScoreStage::kNone:
      return v1::SCORE_STAGE_NONE;
    case core::ScoreStage::kScaled:
      return v1::SCORE_STAGE_SCALED;
    case core::ScoreStage::kSoftcapped:
      return v1::SCORE_STAGE_SOFTCAPPED;
    case core::ScoreStage::kMasked:
      return v1::SCORE_STAGE_MASKED;
  }
  return v1::SCORE_STAGE_UNSPECIFIED;
}

void SetTensor(v1::DataType type, const std::vector<int64_t>& shape, const std::byte* bytes, int64_t size,
               v1::Tensor* tensor) {
  tensor->set_data_type(type);
  tensor->mutable_shape()->Assign(shape.begin(), shape.end());
  tensor->set_data(std::string(reinterpret_cast<const char*>(bytes), size));
}

}  // namespace

v1::DataType WireType(core::ElementType type) {
  switch (type) {
    case core::ElementType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case core::ElementType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case core::ElementType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

v1::AttentionOptions WireOptions(const AttentionProblem& problem) {
  const core::AttentionOptions& options = problem.options();
  const auto assign = [](auto* list, const auto& numbers) { list->Assign(numbers.begin(), numbers.end()); };
  v1::AttentionOptions wire;
  wire.set_layout(WireLayout(options.layout));
  if (options.scale.has_value()) wire.set_scale(*options.scale);
  wire.set_softcap(options.softcap);
  wire.set_causal(WireCausal(options.causal));
  assign(wire.mutable_query_offset(), options.query_offset);
  wire.set_window_left(options.window_left);
  wire.set_window_right(options.window_right);
  assign(wire.mutable_key_lengths(), options.key_lengths);
  assign(wire.mutable_query_starts(), options.query_starts);
  assign(wire.mutable_key_starts(), options.key_starts);
  assign(wire.mutable_alibi_slopes(), options.alibi_slopes);
  assign(wire.mutable_sinks(), options.sinks);
  if (options.compute_type == core::ComputeType::kBFloat16) wire.set_compute_type(v1::COMPUTE_TYPE_BF16);
  if (options.output_type.has_value()) wire.set_output_type(WireType(*options.output_type));
  return wire;
}

v1::ResultSelection WireResults(const AttentionProblem& problem) {
  const core::ResultSelection& results = problem.results();
  v1::ResultSelection wire;
  wire.set_weights(results.weights);
  wire.mutable_weight_query_rows()->Assign(results.weight_query_rows.begin(), results.weight_query_rows.end());
  wire.set_average_weights_over_heads(results.average_weights_over_heads);
  wire.set_scores(WireStage(results.scores));
  wire.set_logsumexp(results.logsumexp);
  wire.set_omit_output(results.omit_output);
  return wire;
}

client::AttendRequest MakeRequest(const AttentionProblem& problem, const ProblemBytes& bytes) {
  const v1::DataType type = WireType(problem.type());
  const auto view = [type](std::vector<int64_t> shape, const std::byte* data, int64_t size) {
    return client::TensorView{type, std::move(shape), {data, static_cast<size_t>(size)}};
  };
  client::AttendRequest request;
  request.query = view(QueryShape(problem), bytes.query(), problem.QueryBytes());
  request.key = view(KeyShape(problem), bytes.key(), problem.KeyBytes());
  request.value = view(ValueShape(problem), bytes.value(), problem.ValueBytes());
  if (const auto& mask = problem.options().mask) {
    const std::span<const uint8_t> elements(bytes.mask(), static_cast<size_t>(problem.MaskBytes()));
    request.mask = client::TensorView{v1::DATA_TYPE_BOOL, mask->shape, std::as_bytes(elements)};
  }
  if (const auto& bias = problem.options().bias) {
    request.bias = view(bias->shape, bytes.bias(), problem.BiasBytes());
    request.bias->data_type = WireType(bias->type);
  }
  request.options = WireOptions(problem);
  request.results = WireResults(problem);
  return request;
}

v1::AttendRequest MakeTensors(const AttentionProblem& problem, const ProblemValues& values) {
  const ProblemBytes bytes(problem, values);
  const v1::DataType type = WireType(problem.type());
  v1::AttendRequest request;
  SetTensor(type, QueryShape(problem), bytes.query(), problem.QueryBytes(), request.mutable_query());
  SetTensor(type, KeyShape(problem), bytes.key(), problem.KeyBytes(), request.mutable_key());
  SetTensor(type, ValueShape(problem), bytes.value(), problem.ValueBytes(), request.mutable_value());
  return request;
}

absl::StatusOr<ProblemResults> ReadResults(const AttentionProblem& problem, const client::AttendResult& result) {
  return TakeAll(problem, {FromClient(result.output), FromClient(result.weights), FromClient(result.scores),
                           FromClient(result.logsumexp)});
}

absl::StatusOr<ProblemResults> ReadResults(const AttentionProblem& problem, const v1::AttendResponse& response) {
  return TakeAll(problem, {FromMessage(response.has_output(), response.output()),
                           FromMessage(response.has_weights(), response.weights()),
                           FromMessage(response.has_scores(), response.scores()),
                           FromMessage(response.has_logsumexp(), response.logsumexp())});
}

absl::StatusOr<ProblemResults> ComputeOverWire(client::Client& client, const AttentionProblem& problem,
                                               const ProblemValues& values) {
  const ProblemBytes bytes(problem, values);
  const absl::StatusOr<client::AttendResult> result = client.Attend(MakeRequest(problem, bytes));
  if (!result.ok()) return result.status();
  return ReadResults(problem, *result);
}

}  // namespace attend::testing
