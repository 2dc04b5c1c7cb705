// Attention as a program would use the core as a library: one call, which returns when the result is there.
#ifndef ATTEND_TESTS_BENCH_CORE_ATTENTION_H_
#define ATTEND_TESTS_BENCH_CORE_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/compute_pool.h"
#include "core/tile_kernels.h"

namespace attend::bench {

// The tensors of one problem, filled with normally distributed numbers; every page of them is resident.
class ProblemTensors {
 public:
  explicit ProblemTensors(core::AttentionProblem problem);

  const core::AttentionProblem& problem() const { return problem_; }
  core::AttentionInputs inputs() const;
  core::AttentionResults results();
  int64_t bytes() const;

 private:
  core::AttentionProblem problem_;
  std::vector<uint8_t> query_, key_, value_, output_;
};

// Workers with what they need. One caller at a time.
class CoreEngine {
 public:
  // FAILED_PRECONDITION for an instruction set other than that of an earlier engine of this process.
  static absl::StatusOr<std::unique_ptr<CoreEngine>> Create(int workers, std::optional<core::InstructionSet> most);

  // Computes by the synchronous call: the caller is one of those that compute.
  absl::Status Run(ProblemTensors& tensors);
  // Submits to the pool, as a server does, and waits for the result.
  absl::Status Submit(ProblemTensors& tensors);

  core::TileKernels& kernels() { return *kernels_; }

 private:
  CoreEngine() = default;

  core::BufferPool buffers_{int64_t{1} << 30};
  std::unique_ptr<core::TileKernels> kernels_;
  // Written by the worker that ends a job. Here, not on the caller's stack: that worker may still be about to notify
  // when the caller goes on.
  absl::Status outcome_;
  std::atomic<uint64_t> ended_ = 0;  // jobs so far
  std::unique_ptr<core::ComputePool> pool_;
};

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_CORE_ATTENTION_H_
