// Computes problems the way a server does: cut into tiles, on a compute pool.
#ifndef ATTEND_TESTS_CONFORMANCE_CORE_RUNNER_H_
#define ATTEND_TESTS_CONFORMANCE_CORE_RUNNER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/compute_pool.h"
#include "core/tile_kernels.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// Thread-compatible.
class CoreRunner {
 public:
  // With instructions no better than the environment variable ATTEND_TEST_INSTRUCTION_SET names, if set; with
  // tiles only, if ATTEND_TEST_TILES_ONLY is.
  static absl::StatusOr<std::unique_ptr<CoreRunner>> Create(int workers);
  ~CoreRunner();

  // Computes one problem. The status is the job's.
  absl::StatusOr<ProblemResults> Run(const core::AttentionProblem& problem, const ProblemValues& values);

  // The same without the pool, on the calling thread: for very many problems so small that handing them to another
  // thread would take longer than they do. OpenMP keeps to one thread in the caller from then on.
  absl::StatusOr<ProblemResults> RunHere(const core::AttentionProblem& problem, const ProblemValues& values);

  // Computes several at the same time, all submitted before any is waited for.
  std::vector<absl::StatusOr<ProblemResults>> RunTogether(const std::vector<ProblemInstance>& instances);

  core::TileKernels& kernels() { return *kernels_; }
  core::ComputePool& pool() { return *pool_; }
  core::BufferPool& buffers() { return buffers_; }

 private:
  class Job;
  CoreRunner();

  core::BufferPool buffers_;
  std::unique_ptr<core::TileKernels> kernels_;
  std::unique_ptr<core::ComputePool> pool_;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_CONFORMANCE_CORE_RUNNER_H_
