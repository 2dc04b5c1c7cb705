#include "tests/conformance/core_runner.h"

#include <omp.h>

#include <cstdlib>
#include <future>
#include <optional>
#include <utility>

#include "core/instruction_set.h"
#include "core/tiled_attention.h"

namespace attend::testing {
namespace {

constexpr int64_t kMaxIdleBytes = int64_t{64} << 20;

absl::StatusOr<std::optional<core::InstructionSet>> InstructionSetUnderTest() {
  const char* name = std::getenv("ATTEND_TEST_INSTRUCTION_SET");
  if (name == nullptr) return std::nullopt;
  absl::StatusOr<core::InstructionSet> set = core::ParseInstructionSet(name);
  if (!set.ok()) return set.status();
  return *set;
}

}  // namespace

// One problem on its way through the pool.
class CoreRunner::Job {
 public:
  explicit Job(const ProblemInstance& instance)
      : problem_(instance.problem), bytes_(instance.problem, instance.values), results_(instance.problem) {}

  void Start(core::TileKernels& kernels, core::ComputePool& pool) {
    auto source = core::TiledAttention::Create(problem_, bytes_.inputs(), results_.results(), kernels);
    if (!source.ok()) {
      done_.set_value(source.status());
      return;
    }
    core::ComputePool::Job job;
    job.source = *std::move(source);
    job.done = [this](const absl::Status& status, const core::JobTimings&) { done_.set_value(status); };
    pool.Submit(std::move(job));
  }

  absl::StatusOr<ProblemResults> Wait() {
    const absl::Status status = done_.get_future().get();
    if (!status.ok()) return status;
    return std::move(results_);
  }

 private:
  core::AttentionProblem problem_;
  ProblemBytes bytes_;
  ProblemResults results_;
  std::promise<absl::Status> done_;
};

CoreRunner::CoreRunner() : buffers_(kMaxIdleBytes) {}

CoreRunner::~CoreRunner() = default;

absl::StatusOr<std::unique_ptr<CoreRunner>> CoreRunner::Create(int workers) {
  const auto instruction_set = InstructionSetUnderTest();
  if (!instruction_set.ok()) return instruction_set.status();
  std::unique_ptr<CoreRunner> runner(new CoreRunner());
  auto kernels = core::TileKernels::Create({.workers = workers,
                                            .max_instruction_set = *instruction_set,
                                            .tiles_only = std::getenv("ATTEND_TEST_TILES_ONLY") != nullptr,
                                            .buffers = &runner->buffers_});
  if (!kernels.ok()) return kernels.status();
  core::ComputePool::Options options;
  options.workers = workers;
  auto pool = core::ComputePool::Create(options);
  if (!pool.ok()) return pool.status();
  runner->kernels_ = *std::move(kernels);
  runner->pool_ = *std::move(pool);
  return runner;
}

absl::StatusOr<ProblemResults> CoreRunner::Run(const core::AttentionProblem& problem, const ProblemValues& values) {
  Job job({problem, values});
  job.Start(*kernels_, *pool_);
  return job.Wait();
}

absl::StatusOr<ProblemResults> CoreRunner::RunHere(const core::AttentionProblem& problem, const ProblemValues& values) {
  omp_set_num_threads(1);  // as on the pool's own threads
  const ProblemBytes bytes(problem, values);
  ProblemResults results(problem);
  auto source = core::TiledAttention::Create(problem, bytes.inputs(), results.results(), *kernels_);
  if (!source.ok()) return source.status();
  while ((*source)->Step(/*worker=*/0).outcome == core::TileSource::Outcome::kAdvanced) {
  }
  if (!(*source)->finished()) return absl::InternalError("one worker alone got stuck");
  if (!(*source)->status().ok()) return (*source)->status();
  return results;
}

std::vector<absl::StatusOr<ProblemResults>> CoreRunner::RunTogether(const std::vector<ProblemInstance>& instances) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (const ProblemInstance& instance : instances) jobs.push_back(std::make_unique<Job>(instance));
  for (const std::unique_ptr<Job>& job : jobs) job->Start(*kernels_, *pool_);
  std::vector<absl::StatusOr<ProblemResults>> results;
  for (const std::unique_ptr<Job>& job : jobs) results.push_back(job->Wait());
  return results;
}

}  // namespace attend::testing
