// The response of one request: memory for the results, which the tiles write once, and the message that is sent from
// that same memory.
#ifndef ATTEND_SERVER_RESPONSE_WRITER_H_
#define ATTEND_SERVER_RESPONSE_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "grpcpp/support/byte_buffer.h"

namespace attend::server {

// v1.Timings.
struct ResponseTimings {
  absl::Duration receive;
  absl::Duration queue;
  absl::Duration pack;
  absl::Duration compute;
  absl::Duration encode;
};

// The size of the response to `problem`: an upper bound, whatever its request_id and timings, and at most 512 bytes too
// high. Saturates at the largest int64.
int64_t PredictResponseBytes(const core::AttentionProblem& problem);

// Movable. Not thread-safe.
class ResponseWriter {
 public:
  // Takes the memory of the results from `buffers`. RESOURCE_EXHAUSTED if it cannot be had.
  static absl::StatusOr<ResponseWriter> Create(const core::AttentionProblem& problem, core::BufferPool& buffers);

  // Where the tiles write: aligned to 64, of the problem's OutputBytes, WeightsBytes, ScoresBytes and LogsumexpBytes.
  // Stays where it is when this object is moved.
  core::AttentionResults results() const;

  // The message, which takes the memory with it: each block goes back to its pool when gRPC has sent it, on any thread.
  grpc::ByteBuffer Finish(const ResponseTimings& timings, absl::string_view request_id) &&;

 private:
  explicit ResponseWriter(const core::AttentionProblem& problem) : problem_(problem) {}

  core::AttentionProblem problem_;
  core::Buffer output_;
  core::Buffer weights_;
  core::Buffer scores_;
  core::Buffer logsumexp_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_RESPONSE_WRITER_H_
