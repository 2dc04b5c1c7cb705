// The inside of TileKernels: what tiles find ready when they run.
#ifndef ATTEND_CORE_TILE_STATE_H_
#define ATTEND_CORE_TILE_STATE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/instruction_set.h"
#include "core/matmul.h"
#include "core/tile_kernels.h"

namespace attend::core {

// Memory of one worker that holds nothing between tiles. Used by that worker alone.
struct TileWorkspace {
  float* scores = nullptr;      // [kMaxTileRows, kKeyBlock]
  uint16_t* weights = nullptr;  // the same as bf16; null without native bf16
  uint64_t* visible = nullptr;  // [kMaxTileRows, kBlockGranules]: core/scores_tile.h
  Buffer memory;                // of all three
  Buffer finite_values;         // grown at need, to one key block of values: see core/query_block.cc
};

class TileKernels::State {
 public:
  State(const Options& options, InstructionSet instruction_set, bool native_bfloat16, std::unique_ptr<Matmul> matmul,
        std::vector<TileWorkspace> workspaces)
      : instruction_set_(instruction_set),
        native_bfloat16_(native_bfloat16),
        tiles_only_(options.tiles_only),
        matmul_(std::move(matmul)),
        buffers_(options.buffers),
        workspaces_(std::move(workspaces)) {}

  InstructionSet instruction_set() const { return instruction_set_; }
  bool tiles_only() const { return tiles_only_; }
  Matmul& matmul() const { return *matmul_; }
  BufferPool& buffers() const { return *buffers_; }
  int workers() const { return static_cast<int>(workspaces_.size()); }
  TileWorkspace& workspace(int worker) { return workspaces_[worker]; }

  // What tensors of `type` are multiplied as.
  ProductType product_type(ElementType type, ComputeType compute_type = ComputeType::kAsInputs) const {
    const bool wanted = type == ElementType::kBFloat16 || compute_type == ComputeType::kBFloat16;
    return native_bfloat16_ && wanted ? ProductType::kBFloat16 : ProductType::kFloat32;
  }

 private:
  const InstructionSet instruction_set_;
  const bool native_bfloat16_;
  const bool tiles_only_;
  const std::unique_ptr<Matmul> matmul_;
  BufferPool* const buffers_;
  std::vector<TileWorkspace> workspaces_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_TILE_STATE_H_
