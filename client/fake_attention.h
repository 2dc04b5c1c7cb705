// Handlers of a FakeServer that compute attention by the reference. For tests.
#ifndef ATTEND_CLIENT_FAKE_ATTENTION_H_
#define ATTEND_CLIENT_FAKE_ATTENTION_H_

#include <grpcpp/support/slice.h>

#include <cmath>
#include <cstring>
#include <string>
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

// The exact answer, rounded.
inline v1::AttendResponse ReferenceAnswer(const v1::AttendRequest& wire) {
  AttendRequest request;
  request.query = ViewOf(wire.query());
  request.key = ViewOf(wire.key());
  request.value = ViewOf(wire.value());
  request.options = wire.options();
  const auto reference = *ReferenceAttention::Create(request);
  const AxisLengths axes = reference.axes();
  const v1::Layout layout = wire.options().layout();
  const std::vector<int64_t> shape =
      LayoutShape(layout, axes.batch, axes.query_heads, axes.query_length, axes.value_dim);
  const RowStrides strides = LayoutStrides(layout, axes.query_heads, axes.query_length, axes.value_dim);
  const int64_t rows = axes.batch * axes.query_heads * axes.query_length;
  std::vector<float> output(static_cast<size_t>(rows * axes.value_dim));
  std::vector<float> weights;
  std::vector<float> logsumexp;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t i = row % axes.query_length;
    const int64_t h = row / axes.query_length % axes.query_heads;
    const int64_t b = row / axes.query_length / axes.query_heads;
    const ReferenceRow exact = reference.Compute(b, h, i);
    const int64_t start = strides.batch * b + strides.head * h + strides.row * i;
    for (int64_t d = 0; d < axes.value_dim; ++d) {
      output[static_cast<size_t>(start + d)] = static_cast<float>(exact.output[static_cast<size_t>(d)]);
    }
    weights.insert(weights.end(), exact.weights.begin(), exact.weights.end());
    logsumexp.push_back(static_cast<float>(exact.logsumexp));
  }
  v1::AttendResponse response;
  FillTensor(wire.query().data_type(), shape, output, response.mutable_output());
  if (wire.results().weights()) {
    FillTensor(v1::DATA_TYPE_FLOAT32, {axes.batch, axes.query_heads, axes.query_length, axes.key_length}, weights,
               response.mutable_weights());
  }
  if (wire.results().logsumexp()) {
    FillTensor(v1::DATA_TYPE_FLOAT32, {axes.batch, axes.query_heads, axes.query_length}, logsumexp,
               response.mutable_logsumexp());
  }
  response.mutable_timings()->mutable_compute()->set_nanos(2'000'000);
  response.set_multiply_adds(rows * axes.key_length * (axes.head_dim + axes.value_dim));
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
