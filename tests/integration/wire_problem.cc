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
  if (layout == Layout::kBNHD) return {batch, length, heads, dim};
  return {batch, heads, length, dim};
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

absl::StatusOr<ProblemResults> TakeAll(const AttentionProblem& problem, const Received& output, const Received& weights,
                                       const Received& logsumexp) {
  const AttentionShape& s = problem.shape();
  const auto type_of = [](bool asked_for) { return asked_for ? v1::DATA_TYPE_FLOAT32 : v1::DATA_TYPE_UNSPECIFIED; };
  const auto shape_if = [](bool asked_for, std::vector<int64_t> shape) {
    return asked_for ? std::move(shape) : std::vector<int64_t>();
  };
  ProblemResults results(problem);
  const core::ResultSelection& asked = problem.results();
  const Wanted wanted_output = {"output", WireType(problem.type()),
                                InLayout(problem.options().layout, s.batch, s.query_heads, s.query_length, s.value_dim),
                                results.output};
  const Wanted wanted_weights = {"weights", type_of(asked.weights),
                                 shape_if(asked.weights, {s.batch, s.query_heads, s.query_length, s.key_length}),
                                 std::as_writable_bytes(std::span(results.weights))};
  const Wanted wanted_logsumexp = {"logsumexp", type_of(asked.logsumexp),
                                   shape_if(asked.logsumexp, {s.batch, s.query_heads, s.query_length}),
                                   std::as_writable_bytes(std::span(results.logsumexp))};
  if (absl::Status status = Take(wanted_output, output); !status.ok()) return status;
  if (absl::Status status = Take(wanted_weights, weights); !status.ok()) return status;
  if (absl::Status status = Take(wanted_logsumexp, logsumexp); !status.ok()) return status;
  return results;
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
  v1::AttentionOptions wire;
  wire.set_layout(options.layout == Layout::kBNHD ? v1::LAYOUT_BNHD : v1::LAYOUT_BHND);
  if (options.scale.has_value()) wire.set_scale(*options.scale);
  switch (options.causal) {
    case CausalAlignment::kNone:
      wire.set_causal(v1::CAUSAL_ALIGNMENT_NONE);
      break;
    case CausalAlignment::kTopLeft:
      wire.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
      break;
    case CausalAlignment::kBottomRight:
      wire.set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
      break;
  }
  wire.mutable_key_lengths()->Assign(options.key_lengths.begin(), options.key_lengths.end());
  return wire;
}

v1::ResultSelection WireResults(const AttentionProblem& problem) {
  v1::ResultSelection wire;
  wire.set_weights(problem.results().weights);
  wire.set_logsumexp(problem.results().logsumexp);
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
  return TakeAll(problem, FromClient(result.output), FromClient(result.weights), FromClient(result.logsumexp));
}

absl::StatusOr<ProblemResults> ReadResults(const AttentionProblem& problem, const v1::AttendResponse& response) {
  return TakeAll(problem, FromMessage(response.has_output(), response.output()),
                 FromMessage(response.has_weights(), response.weights()),
                 FromMessage(response.has_logsumexp(), response.logsumexp()));
}

absl::StatusOr<ProblemResults> ComputeOverWire(client::Client& client, const AttentionProblem& problem,
                                               const ProblemValues& values) {
  const ProblemBytes bytes(problem, values);
  const absl::StatusOr<client::AttendResult> result = client.Attend(MakeRequest(problem, bytes));
  if (!result.ok()) return result.status();
  return ReadResults(problem, *result);
}

}  // namespace attend::testing
