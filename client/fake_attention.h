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
  if (wire.options().has_mask()) request.mask = ViewOf(wire.options().mask());
  if (wire.options().has_bias()) request.bias = ViewOf(wire.options().bias());
  request.options = wire.options();
  request.results = wire.results();
  const auto reference = *ReferenceAttention::Create(request);
  const AxisLengths axes = reference.axes();
  const v1::Layout layout = wire.options().layout();
  const std::vector<int64_t> shape =
      LayoutShape(layout, axes.batch, axes.query_heads, axes.query_length, axes.value_dim);
  const RowStrides strides = LayoutStrides(layout, axes.query_heads, axes.query_length, axes.value_dim);
  const std::vector<int64_t> chosen(wire.results().weight_query_rows().begin(),
                                    wire.results().weight_query_rows().end());
  const int64_t matrix_rows = chosen.empty() ? axes.query_length : static_cast<int64_t>(chosen.size());
  const bool averaged = wire.results().average_weights_over_heads();
  const int64_t rows = reference.total_rows();
  std::vector<float> output(static_cast<size_t>(rows * axes.value_dim));
  std::vector<float> logsumexp;
  for (int64_t row = 0; row < rows; ++row) {
    const RowPlace at = reference.Place(row);
    const ReferenceRow exact = reference.Compute(at.batch, at.head, at.query);
    const int64_t start =
        strides.batch * at.batch + strides.head * at.head + strides.row * (reference.FirstQuery(at.batch) + at.query);
    for (int64_t d = 0; d < axes.value_dim; ++d) {
      output[static_cast<size_t>(start + d)] = static_cast<float>(exact.output[static_cast<size_t>(d)]);
    }
    logsumexp.push_back(static_cast<float>(exact.logsumexp));
  }
  std::vector<float> weights;
  std::vector<float> scores;
  for (int64_t b = 0; b < axes.batch && layout != v1::LAYOUT_THD; ++b) {
    std::vector<double> sums(static_cast<size_t>(matrix_rows * axes.key_length));
    for (int64_t h = 0; h < axes.query_heads; ++h) {
      for (int64_t r = 0; r < matrix_rows; ++r) {
        const ReferenceRow exact = reference.Compute(b, h, chosen.empty() ? r : chosen[static_cast<size_t>(r)]);
        scores.insert(scores.end(), exact.scores.begin(), exact.scores.end());
        if (!averaged) weights.insert(weights.end(), exact.weights.begin(), exact.weights.end());
        for (int64_t j = 0; j < axes.key_length; ++j) {
          sums[static_cast<size_t>(r * axes.key_length + j)] += exact.weights[static_cast<size_t>(j)];
        }
      }
    }
    for (const double sum : sums) {
      if (averaged) weights.push_back(static_cast<float>(sum / static_cast<double>(axes.query_heads)));
    }
  }
  v1::AttendResponse response;
  const v1::DataType output_type = wire.options().output_type() == v1::DATA_TYPE_UNSPECIFIED
                                       ? wire.query().data_type()
                                       : wire.options().output_type();
  if (!wire.results().omit_output()) FillTensor(output_type, shape, output, response.mutable_output());
  const std::vector<int64_t> matrix = {axes.batch, axes.query_heads, matrix_rows, axes.key_length};
  const std::vector<int64_t> averages = {axes.batch, matrix_rows, axes.key_length};
  if (wire.results().weights()) {
    FillTensor(v1::DATA_TYPE_FLOAT32, averaged ? averages : matrix, weights, response.mutable_weights());
  }
  if (!scores.empty()) FillTensor(v1::DATA_TYPE_FLOAT32, matrix, scores, response.mutable_scores());
  if (wire.results().logsumexp()) {
    const std::vector<int64_t> packed = {axes.query_heads, axes.query_length};
    const std::vector<int64_t> whole = {axes.batch, axes.query_heads, axes.query_length};
    FillTensor(v1::DATA_TYPE_FLOAT32, layout == v1::LAYOUT_THD ? packed : whole, logsumexp,
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
