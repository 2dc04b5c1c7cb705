// Requests for tests of the codec: good ones, changes of them, and what is decoded of them.
#ifndef ATTEND_SERVER_CODEC_REQUESTS_H_
#define ATTEND_SERVER_CODEC_REQUESTS_H_

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/attend_codec.h"

namespace attend::server {

inline constexpr int64_t kMaxMessageBytes = 1'000'000;

// batch 2, 4 query heads on 2 kv heads, 3 queries, 5 keys, head_dim 8, value_dim 6, f32.
inline v1::AttendRequest GoodRequest() {
  v1::AttendRequest request;
  const auto fill = [](v1::Tensor& tensor, const std::vector<int64_t>& shape) {
    size_t bytes = sizeof(float);
    for (const int64_t length : shape) bytes *= static_cast<size_t>(length);
    tensor.set_data_type(v1::DATA_TYPE_FLOAT32);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    tensor.set_data(std::string(bytes, '\0'));
  };
  fill(*request.mutable_query(), {2, 4, 3, 8});
  fill(*request.mutable_key(), {2, 2, 5, 8});
  fill(*request.mutable_value(), {2, 2, 5, 6});
  return request;
}

inline absl::StatusOr<DecodedRequest> DecodeBytes(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  auto parts = ReadAttendRequest(grpc::ByteBuffer(&slice, 1));
  if (!parts.ok()) return parts.status();
  return DecodeAttendRequest(*std::move(parts), {.max_message_bytes = kMaxMessageBytes, .version = "1.2.3"});
}

inline absl::StatusOr<DecodedRequest> Decode(const v1::AttendRequest& request) {
  return DecodeBytes(request.SerializeAsString());
}

using Change = std::function<void(v1::AttendRequest&)>;

inline absl::StatusOr<DecodedRequest> DecodeChanged(const Change& change) {
  v1::AttendRequest request = GoodRequest();
  change(request);
  return Decode(request);
}

inline void Transpose(v1::Tensor& tensor) { tensor.mutable_shape()->SwapElements(1, 2); }

inline void MakeBnhd(v1::AttendRequest& request) {
  request.mutable_options()->set_layout(v1::LAYOUT_BNHD);
  Transpose(*request.mutable_query());
  Transpose(*request.mutable_key());
  Transpose(*request.mutable_value());
}

// As one sequence of 3 queries and 5 keys, and an empty one.
inline void MakeRagged(v1::AttendRequest& request) {
  request.Clear();
  const auto fill = [](v1::Tensor& tensor, std::initializer_list<int64_t> shape, size_t bytes) {
    tensor.set_data_type(v1::DATA_TYPE_FLOAT32);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    tensor.set_data(std::string(bytes, '\0'));
  };
  fill(*request.mutable_query(), {3, 4, 8}, 3 * 4 * 8 * 4);
  fill(*request.mutable_key(), {5, 2, 8}, 5 * 2 * 8 * 4);
  fill(*request.mutable_value(), {5, 2, 6}, 5 * 2 * 6 * 4);
  v1::AttentionOptions& options = *request.mutable_options();
  options.set_layout(v1::LAYOUT_THD);
  for (const int64_t start : {0, 3, 3}) options.add_query_starts(start);
  for (const int64_t start : {0, 5, 5}) options.add_key_starts(start);
}

inline void SetMask(v1::AttendRequest& request, const std::vector<int64_t>& shape, size_t bytes) {
  v1::Tensor& mask = *request.mutable_options()->mutable_mask();
  mask.set_data_type(v1::DATA_TYPE_BOOL);
  mask.mutable_shape()->Assign(shape.begin(), shape.end());
  mask.set_data(std::string(bytes, '\1'));
}

inline void SetBias(v1::AttendRequest& request, v1::DataType type, const std::vector<int64_t>& shape, size_t bytes) {
  v1::Tensor& bias = *request.mutable_options()->mutable_bias();
  bias.set_data_type(type);
  bias.mutable_shape()->Assign(shape.begin(), shape.end());
  bias.set_data(std::string(bytes, '\0'));
}

}  // namespace attend::server

#endif  // ATTEND_SERVER_CODEC_REQUESTS_H_
