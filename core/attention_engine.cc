#include "core/attention_engine.h"

#include <utility>

#include "core/tiled_attention.h"

namespace attend::core {

absl::StatusOr<std::unique_ptr<AttentionEngine>> AttentionEngine::Create(const Options& options) {
  auto engine = std::unique_ptr<AttentionEngine>(new AttentionEngine(options.max_idle_bytes));
  auto kernels = TileKernels::Create(
      {.workers = options.threads, .max_instruction_set = options.max_instruction_set, .buffers = &engine->buffers_});
  if (!kernels.ok()) return kernels.status();
  engine->kernels_ = *std::move(kernels);
  auto pool = ComputePool::Create({.workers = options.threads});
  if (!pool.ok()) return pool.status();
  engine->pool_ = *std::move(pool);
  return engine;
}

absl::Status AttentionEngine::Compute(AttentionProblem problem, const AttentionInputs& inputs,
                                      const AttentionResults& results) {
  auto source = TiledAttention::Create(std::move(problem), inputs, results, *kernels_);
  if (!source.ok()) return source.status();
  return pool_->Run({.source = *std::move(source)});
}

}  // namespace attend::core
