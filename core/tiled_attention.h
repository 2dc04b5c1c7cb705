// One attention problem cut into tiles: FlashAttention's idea (Dao et al., 2022) on CPU, with keys packed once.
#ifndef ATTEND_CORE_TILED_ATTENTION_H_
#define ATTEND_CORE_TILED_ATTENTION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/attention_problem.h"
#include "core/tile_kernels.h"
#include "core/tile_source.h"

namespace attend::core {

// Bytes that computing `problem` takes beyond inputs and results: packed keys and values, and per worker a query block.
// In checked arithmetic; saturates at the largest int64.
int64_t PredictScratchBytes(const AttentionProblem& problem, const TileKernels& kernels);

class TiledAttention final : public TileSource {
 public:
  // `kernels` outlives the result, as do the tensors. Allocates PredictScratchBytes at most, some of it in Step.
  // RESOURCE_EXHAUSTED if memory runs out.
  static absl::StatusOr<std::unique_ptr<TiledAttention>> Create(AttentionProblem problem, const AttentionInputs& inputs,
                                                                const AttentionResults& results, TileKernels& kernels);
  ~TiledAttention() override;

  StepResult Step(int worker) override;
  bool finished() const override;
  absl::Status status() const override;  // INTERNAL from oneDNN, RESOURCE_EXHAUSTED where memory ran out
  int parallelism() const override;
  int64_t total_multiply_adds() const override;

 private:
  class Plan;
  explicit TiledAttention(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_TILED_ATTENTION_H_
