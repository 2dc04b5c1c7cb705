#include "server/response_writer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "attend/v1/attention.pb.h"
#include "google/protobuf/util/time_util.h"
#include "proto/wire/attend_messages.h"
#include "server/tensor_codec.h"

namespace attend::server {
namespace {

void Describe(v1::DataType type, const std::vector<int64_t>& shape, v1::Tensor& tensor) {
  tensor.set_data_type(type);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
}

// The response but for the tensors' bytes.
v1::AttendResponse MakeResponse(const core::AttentionProblem& problem, const ResponseTimings& timings,
                                absl::string_view request_id) {
  v1::AttendResponse response;
  if (!problem.results().omit_output) {
    Describe(ToDataType(problem.output_type()), OutputShape(problem), *response.mutable_output());
  }
  if (problem.results().weights) {
    Describe(v1::DATA_TYPE_FLOAT32, WeightsShape(problem), *response.mutable_weights());
  }
  if (problem.results().scores != core::ScoreStage::kNone) {
    Describe(v1::DATA_TYPE_FLOAT32, ScoresShape(problem), *response.mutable_scores());
  }
  if (problem.results().logsumexp) {
    Describe(v1::DATA_TYPE_FLOAT32, LogsumexpShape(problem), *response.mutable_logsumexp());
  }
  const auto duration = [](absl::Duration time) {
    return google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(std::max(time, absl::ZeroDuration())));
  };
  v1::Timings& wire_timings = *response.mutable_timings();
  *wire_timings.mutable_receive() = duration(timings.receive);
  *wire_timings.mutable_queue() = duration(timings.queue);
  *wire_timings.mutable_pack() = duration(timings.pack);
  *wire_timings.mutable_compute() = duration(timings.compute);
  *wire_timings.mutable_encode() = duration(timings.encode);
  response.set_multiply_adds(problem.MultiplyAdds());
  response.set_request_id(std::string(request_id));
  return response;
}

// Takes a block of `bytes` into `buffer`.
absl::Status Acquire(int64_t bytes, core::BufferPool& buffers, core::Buffer& buffer) {
  buffer = buffers.Acquire(bytes);
  if (buffer.size() == bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of results"));
}

// The block as bulk bytes that own it.
wire::BulkBytes Share(core::Buffer buffer) {
  auto owner = std::make_shared<core::Buffer>(std::move(buffer));
  const void* const bytes = owner->data();
  const int64_t size = owner->size();
  return wire::BulkBytes::Share(bytes, size, std::move(owner));
}

}  // namespace

int64_t PredictResponseBytes(const core::AttentionProblem& problem) {
  // Types, shapes and headers of four tensors (60 bytes each at most), timings (92), work (10), and a request_id of 128
  // bytes (131).
  int64_t bytes = 512;
  for (const int64_t tensor :
       {problem.OutputBytes(), problem.WeightsBytes(), problem.ScoresBytes(), problem.LogsumexpBytes()}) {
    if (__builtin_add_overflow(bytes, tensor, &bytes)) return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

absl::StatusOr<ResponseWriter> ResponseWriter::Create(const core::AttentionProblem& problem,
                                                      core::BufferPool& buffers) {
  ResponseWriter writer(problem);
  for (const absl::Status& status : {
           Acquire(problem.OutputBytes(), buffers, writer.output_),
           Acquire(problem.WeightsBytes(), buffers, writer.weights_),
           Acquire(problem.ScoresBytes(), buffers, writer.scores_),
           Acquire(problem.LogsumexpBytes(), buffers, writer.logsumexp_),
       }) {
    if (!status.ok()) return status;
  }
  return writer;
}

core::AttentionResults ResponseWriter::results() const {
  return {.output = output_.data(),
          .weights = reinterpret_cast<float*>(weights_.data()),
          .scores = reinterpret_cast<float*>(scores_.data()),
          .logsumexp = reinterpret_cast<float*>(logsumexp_.data())};
}

grpc::ByteBuffer ResponseWriter::Finish(const ResponseTimings& timings, absl::string_view request_id) && {
  wire::AttendResponseParts parts;
  parts.message = MakeResponse(problem_, timings, request_id);
  parts.output = Share(std::move(output_));
  parts.weights = Share(std::move(weights_));
  parts.scores = Share(std::move(scores_));
  parts.logsumexp = Share(std::move(logsumexp_));
  return wire::JoinAttendResponse(parts);
}

}  // namespace attend::server
