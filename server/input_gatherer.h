// Makes the tensors of a request contiguous, as the tiles need them: in place where they are small and arrived in one
// piece, else copied, a bounded piece at a time.
#ifndef ATTEND_SERVER_INPUT_GATHERER_H_
#define ATTEND_SERVER_INPUT_GATHERER_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "proto/wire/bulk_bytes.h"
#include "server/attend_codec.h"

namespace attend::server {

// Movable. Not thread-safe; different threads may call Step in turn.
class InputGatherer {
 public:
  // Takes blocks from `buffers` for what must be copied; nothing is copied yet. `tensors` have the byte counts of
  // `problem`, as DecodeAttendRequest makes them. RESOURCE_EXHAUSTED if memory cannot be had.
  static absl::StatusOr<InputGatherer> Create(const core::AttentionProblem& problem, RequestTensors tensors,
                                              core::BufferPool& buffers);

  // Copies up to `max_bytes` more. True once nothing is left to copy.
  bool Step(int64_t max_bytes);
  bool done() const;
  int64_t remaining_bytes() const;

  // Where the tensors lie, aligned to their element. For use once done(), as long as this object, or one moved from it,
  // lives.
  const core::AttentionInputs& inputs() const { return inputs_; }

 private:
  // One tensor: its bytes where they arrived, or a copy being made.
  struct Tensor {
    wire::BulkBytes in_place;
    core::Buffer copy;
    wire::BulkGatherer gatherer;
  };
  InputGatherer() = default;

  std::array<Tensor, 5> tensors_;  // query, key, value, mask, bias
  core::AttentionInputs inputs_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_INPUT_GATHERER_H_
