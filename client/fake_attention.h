// Handlers of a FakeServer that compute attention by the reference. For tests.
#ifndef ATTEND_CLIENT_FAKE_ATTENTION_H_
#define ATTEND_CLIENT_FAKE_ATTENTION_H_

#include <grpcpp/support/slice.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "attend/v1/attention.pb.h"
#include "client/element_rounding.h"
#include "client/fake_server.h"
#include "client/reference_attention.h"

namespace attend::client {

inline std::string MessageBytes(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

inline TensorView ViewOf(const v1::Tensor& tensor) {
  return {.data_type = tensor.data_type(),
          .shape = {tensor.shape().begin(), tensor.shape().end()},
          .data = std::as_bytes(std::span<const char>(tensor.data().data(), tensor.data().size()))};
}

inline void FillTensor(v1::DataType type, const std::vector<int64_t>& shape, const std::vector<float>& elements,
                       v1::Tensor* tensor) {
  const TensorView rounded = RoundTensor(type, shape, elements);
  tensor->set_data_type(type);
  tensor->mutable_shape()->Assign(shape.begin(), shape.end());
  tensor->set_data(rounded.data.data(), rounded.data.size());
}

inline AttendRequest ViewOf(const v1::AttendRequest& wire) {
  AttendRequest request;
  request.query = ViewOf(wire.query());
  request.key = ViewOf(wire.key());
  request.value = ViewOf(wire.value());
  if (wire.options().has_mask()) request.mask = ViewOf(wire.options().mask());
  if (wire.options().has_bias()) request.bias = ViewOf(wire.options().bias());
  request.options = wire.options();
  request.results = wire.results();
  return request;
}

// Adds the output and logsumexp of every row.
inline void AnswerRows(const v1::AttendRequest& wire, const ReferenceAttention& reference,
                       v1::AttendResponse* response) {
  const AxisLengths axes = reference.axes();
  const v1::Layout layout = wire.options().layout();
  const RowStrides strides = LayoutStrides(layout, axes.query_heads, axes.query_length, axes.value_dim);
  std::vector<float> output(static_cast<size_t>(reference.total_rows() * axes.value_dim));
  std::vector<float> logsumexp;
  for (int64_t row = 0; row < reference.total_rows(); ++row) {
    const RowPlace at = reference.Place(row);
    const ReferenceRow exact = reference.Compute(at.batch, at.head, at.query);
    const int64_t start =
        strides.batch * at.batch + strides.head * at.head + strides.row * (reference.FirstQuery(at.batch) + at.query);
    for (int64_t d = 0; d < axes.value_dim; ++d) {
      output[static_cast<size_t>(start + d)] = static_cast<float>(exact.output[static_cast<size_t>(d)]);
    }
    logsumexp.push_back(static_cast<float>(exact.logsumexp));
  }
  if (!wire.results().omit_output()) {
    const bool as_inputs = wire.options().output_type() == v1::DATA_TYPE_UNSPECIFIED;
    FillTensor(as_inputs ? wire.query().data_type() : wire.options().output_type(),
               LayoutShape(layout, axes.batch, axes.query_heads, axes.query_length, axes.value_dim), output,
               response->mutable_output());
  }
  if (wire.results().logsumexp()) {
    std::vector<int64_t> shape = {axes.query_heads, axes.query_length};
    if (layout != v1::LAYOUT_THD) shape.insert(shape.begin(), axes.batch);
    FillTensor(v1::DATA_TYPE_FLOAT32, shape, logsumexp, response->mutable_logsumexp());
  }
}

// Adds weights and scores of the rows that are asked for.
inline void AnswerMatrices(const v1::AttendRequest& wire, const ReferenceAttention& reference,
                           v1::AttendResponse* response) {
  const AxisLengths axes = reference.axes();
  std::vector<int64_t> queries(wire.results().weight_query_rows().begin(), wire.results().weight_query_rows().end());
  for (int64_t i = 0; wire.results().weight_query_rows().empty() && i < axes.query_length; ++i) queries.push_back(i);
  std::vector<float> weights;
  std::vector<float> scores;
  for (int64_t head = 0; head < axes.batch * axes.query_heads; ++head) {
    for (const int64_t query : queries) {
      const ReferenceRow row = reference.Compute(head / axes.query_heads, head % axes.query_heads, query);
      weights.insert(weights.end(), row.weights.begin(), row.weights.end());
      scores.insert(scores.end(), row.scores.begin(), row.scores.end());
    }
  }
  std::vector<int64_t> shape = {axes.batch, axes.query_heads, static_cast<int64_t>(queries.size()), axes.key_length};
  if (!scores.empty()) FillTensor(v1::DATA_TYPE_FLOAT32, shape, scores, response->mutable_scores());
  if (wire.results().average_weights_over_heads()) {
    const size_t per_head = queries.size() * static_cast<size_t>(axes.key_length);
    std::vector<float> averages(static_cast<size_t>(axes.batch) * per_head);
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t batch = i / per_head / static_cast<size_t>(axes.query_heads);
      averages[batch * per_head + i % per_head] += weights[i] / static_cast<float>(axes.query_heads);
    }
    weights = std::move(averages);
    shape.erase(shape.begin() + 1);
  }
  if (wire.results().weights()) FillTensor(v1::DATA_TYPE_FLOAT32, shape, weights, response->mutable_weights());
}

// The exact answer, rounded.
inline v1::AttendResponse ReferenceAnswer(const v1::AttendRequest& wire) {
  const auto reference = *ReferenceAttention::Create(ViewOf(wire));
  const AxisLengths axes = reference.axes();
  v1::AttendResponse response;
  AnswerRows(wire, reference, &response);
  if (wire.options().layout() != v1::LAYOUT_THD) AnswerMatrices(wire, reference, &response);
  response.mutable_timings()->mutable_compute()->set_nanos(2'000'000);
  response.set_multiply_adds(reference.total_rows() * axes.key_length * (axes.head_dim + axes.value_dim));
  response.set_request_id(wire.request_id());
  return response;
}

// Answers Attend and GetServerInfo.
inline FakeAnswer AnswerAttention(const FakeCall& call) {
  if (call.method == "/attend.v1.AttentionService/GetServerInfo") {
    v1::GetServerInfoResponse description;
    description.set_version("1.2.3");
    description.set_instruction_set("abacus");
    description.set_compute_threads(3);
    return AnswerWith(description);
  }
  v1::AttendRequest request;
  if (!request.ParseFromString(MessageBytes(call.request))) {
    return FailWith(grpc::StatusCode::INVALID_ARGUMENT, "no AttendRequest");
  }
  return AnswerWith(ReferenceAnswer(request));
}

// The same, but for one element of the output: wrong by 1%.
inline FakeAnswer AnswerWrongly(const FakeCall& call) {
  v1::AttendRequest request;
  if (call.method != "/attend.v1.AttentionService/Attend") return AnswerAttention(call);
  request.ParseFromString(MessageBytes(call.request));
  v1::AttendResponse response = ReferenceAnswer(request);
  float element = 0;
  std::string& bytes = *response.mutable_output()->mutable_data();
  std::memcpy(&element, bytes.data(), sizeof(element));
  element *= 1.01f;
  std::memcpy(bytes.data(), &element, sizeof(element));
  return AnswerWith(response);
}

}  // namespace attend::client

#endif  // ATTEND_CLIENT_FAKE_ATTENTION_H_
