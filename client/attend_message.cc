#include "client/attend_message.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/duration.pb.h"
#include "proto/wire/attend_messages.h"

namespace attend::client {
namespace {

constexpr int64_t kLargestMessage = std::numeric_limits<int32_t>::max();  // protobuf's limit, and so gRPC's

void Describe(const TensorView& tensor, attend::v1::Tensor& message) {
  message.set_data_type(tensor.data_type);
  message.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
}

wire::BulkBytes Lend(const TensorView& tensor, const std::shared_ptr<const void>& borrowed) {
  return wire::BulkBytes::Share(tensor.data.data(), static_cast<int64_t>(tensor.data.size()),
                                tensor.owner != nullptr ? tensor.owner : borrowed);
}

// product(shape), or nothing if the shape is negative somewhere or overflows.
std::optional<int64_t> Elements(const google::protobuf::RepeatedField<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t length : shape) {
    if (length < 0 || __builtin_mul_overflow(product, length, &product)) return std::nullopt;
  }
  return product;
}

absl::StatusOr<Tensor> Gather(absl::string_view name, const attend::v1::Tensor& message, const wire::BulkBytes& bytes) {
  const int64_t element_bytes = ElementBytes(message.data_type());
  const std::optional<int64_t> elements = Elements(message.shape());
  int64_t wanted = 0;
  if (element_bytes == 0 || !elements || __builtin_mul_overflow(*elements, element_bytes, &wanted) ||
      wanted != bytes.size()) {
    return absl::InternalError(absl::StrCat("the server's ", name, " has ", bytes.size(), " bytes, which do not fit [",
                                            absl::StrJoin(message.shape(), ", "), "] of type ",
                                            attend::v1::DataType_Name(message.data_type())));
  }
  auto data = std::make_shared_for_overwrite<std::byte[]>(bytes.size());
  bytes.CopyTo(data.get());
  return Tensor(message.data_type(), {message.shape().begin(), message.shape().end()}, std::move(data), bytes.size());
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace

bool BorrowsMemory(const AttendRequest& request) {
  const auto borrowed = [](const TensorView& tensor) { return tensor.owner == nullptr && !tensor.data.empty(); };
  return borrowed(request.query) || borrowed(request.key) || borrowed(request.value) ||
         (request.mask && borrowed(*request.mask)) || (request.bias && borrowed(*request.bias));
}

absl::StatusOr<grpc::ByteBuffer> EncodeAttendRequest(const AttendRequest& request,
                                                     const std::shared_ptr<const void>& borrowed) {
  if (request.options.has_mask() || request.options.has_bias()) {
    return absl::InvalidArgumentError("mask and bias are given beside the options, not within them");
  }
  wire::AttendRequestParts parts;
  Describe(request.query, *parts.message.mutable_query());
  Describe(request.key, *parts.message.mutable_key());
  Describe(request.value, *parts.message.mutable_value());
  *parts.message.mutable_options() = request.options;
  *parts.message.mutable_results() = request.results;
  parts.message.set_request_id(request.request_id);
  parts.message.set_priority(request.priority);
  parts.query = Lend(request.query, borrowed);
  parts.key = Lend(request.key, borrowed);
  parts.value = Lend(request.value, borrowed);
  if (request.mask) {
    Describe(*request.mask, *parts.message.mutable_options()->mutable_mask());
    parts.mask = Lend(*request.mask, borrowed);
  }
  if (request.bias) {
    Describe(*request.bias, *parts.message.mutable_options()->mutable_bias());
    parts.bias = Lend(*request.bias, borrowed);
  }
  const double bytes = 0.0 + parts.query.size() + parts.key.size() + parts.value.size() + parts.mask.size() +
                       parts.bias.size() + parts.message.ByteSizeLong() +
                       64;  // 64: more than the tags and lengths take
  if (bytes > kLargestMessage) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request has ", bytes, " bytes, must be at most ", kLargestMessage));
  }
  return wire::JoinAttendRequest(parts);
}

absl::StatusOr<AttendResult> DecodeAttendResponse(const grpc::ByteBuffer& message) {
  const absl::StatusOr<wire::AttendResponseParts> parts = wire::SplitAttendResponse(message);
  if (!parts.ok()) {
    return absl::InternalError(absl::StrCat("the server's answer is no AttendResponse: ", parts.status().message()));
  }
  const attend::v1::AttendResponse& response = parts->message;
  AttendResult result;
  const auto gather = [](absl::string_view name, bool present, const attend::v1::Tensor& tensor,
                         const wire::BulkBytes& bytes, Tensor& target) -> absl::Status {
    if (!present) return absl::OkStatus();
    absl::StatusOr<Tensor> gathered = Gather(name, tensor, bytes);
    if (!gathered.ok()) return gathered.status();
    target = *std::move(gathered);
    return absl::OkStatus();
  };
  for (const absl::Status& status :
       {gather("output", response.has_output(), response.output(), parts->output, result.output),
        gather("weights", response.has_weights(), response.weights(), parts->weights, result.weights),
        gather("scores", response.has_scores(), response.scores(), parts->scores, result.scores),
        gather("logsumexp", response.has_logsumexp(), response.logsumexp(), parts->logsumexp, result.logsumexp)}) {
    if (!status.ok()) return status;
  }
  result.server = {.receive = FromProto(response.timings().receive()),
                   .queue = FromProto(response.timings().queue()),
                   .pack = FromProto(response.timings().pack()),
                   .compute = FromProto(response.timings().compute()),
                   .encode = FromProto(response.timings().encode())};
  result.multiply_adds = response.multiply_adds();
  result.request_id = response.request_id();
  result.response_bytes = static_cast<int64_t>(message.Length());
  return result;
}

}  // namespace attend::client
