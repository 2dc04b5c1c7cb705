// For programs that use attend::core as a library: all that computes attention, in one object with one call.
//
//   auto engine = AttentionEngine::Create({.threads = 8});
//   auto problem = AttentionProblem::Create({.query_heads = 8, .kv_heads = 8, .query_length = 128, .key_length = 128,
//                                            .head_dim = 64, .value_dim = 64}, ElementType::kFloat32);
//   absl::Status status = (*engine)->Compute(*problem, {.query = q, .key = k, .value = v}, {.output = output});
//
// Who wants to go on while a job is computed, or to cancel it, uses the parts: TileKernels, TiledAttention,
// ComputePool.
#ifndef ATTEND_CORE_ATTENTION_ENGINE_H_
#define ATTEND_CORE_ATTENTION_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/compute_pool.h"
#include "core/instruction_set.h"
#include "core/tile_kernels.h"

namespace attend::core {

class AttentionEngine {
 public:
  struct Options {
    // That compute at the same time, callers included; at least 1. One for each processor is best.
    int threads = 1;
    // Uses no instructions beyond these; holds for the whole process: see TileKernels::Options.
    std::optional<InstructionSet> max_instruction_set = {};
    // Memory that is kept from one call to the next, at most.
    int64_t max_idle_bytes = int64_t{256} << 20;
  };

  // INVALID_ARGUMENT for fewer than one thread, FAILED_PRECONDITION on a processor below AVX2 or if max_instruction_set
  // is not what the process computes with, RESOURCE_EXHAUSTED if threads or memory cannot be had, INTERNAL if oneDNN
  // fails.
  static absl::StatusOr<std::unique_ptr<AttentionEngine>> Create(const Options& options);

  // No call of Compute may be running.
  ~AttentionEngine() = default;

  AttentionEngine(const AttentionEngine&) = delete;
  AttentionEngine& operator=(const AttentionEngine&) = delete;

  // Computes `problem` and returns when it is done. Shapes, layouts and byte counts are those that the problem states:
  // core/attention_problem.h. The caller computes, too, while one of the engine's threads has nothing to do, so that a
  // small problem needs no other thread at all; else it waits. The bits of the results do not depend on that, nor on
  // the number of threads, nor on the caller's floating-point settings, which are left as they were.
  //
  // RESOURCE_EXHAUSTED if memory runs out, INTERNAL if oneDNN fails; results are undefined then.
  //
  // Thread-safe: several threads may call it at once and share the engine's threads fairly by work. The tensors must
  // not change, and nobody else may write to the results, until it returns.
  absl::Status Compute(AttentionProblem problem, const AttentionInputs& inputs, const AttentionResults& results);

  int threads() const { return pool_->workers(); }
  InstructionSet instruction_set() const { return kernels_->instruction_set(); }

 private:
  explicit AttentionEngine(int64_t max_idle_bytes) : buffers_(max_idle_bytes) {}

  BufferPool buffers_;
  std::unique_ptr<TileKernels> kernels_;
  std::unique_ptr<ComputePool> pool_;  // the last: its threads use the others
};

}  // namespace attend::core

#endif  // ATTEND_CORE_ATTENTION_ENGINE_H_
