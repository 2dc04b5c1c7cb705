// What tiled attention needs from the machine, set up once per process: the matmul back end with its primitives, the
// SIMD dispatch, and one workspace (scores tile, oneDNN scratchpad, stream) per worker.
#ifndef ATTEND_CORE_TILE_KERNELS_H_
#define ATTEND_CORE_TILE_KERNELS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/buffer_pool.h"
#include "core/element_type.h"
#include "core/instruction_set.h"

namespace attend::core {

class TileKernels {
 public:
  struct Options {
    int workers = 1;
    // Uses no instructions beyond these. One beyond the processor's is emulated where possible (bfloat16 products in
    // f32, for tests: core/matmul_emulation.h), else the processor's own best. Process-wide: the first value given
    // holds for oneDNN and for SIMD alike; a different one later is FAILED_PRECONDITION.
    std::optional<InstructionSet> max_instruction_set;
    // For tests: computes few query rows in tiles as well (core/decode_splits.h).
    bool tiles_only = false;
    // Where packed keys and values come from; outlives the kernels.
    BufferPool* buffers = nullptr;
  };

  // FAILED_PRECONDITION on a processor below AVX2, INTERNAL if oneDNN fails.
  static absl::StatusOr<std::unique_ptr<TileKernels>> Create(const Options& options);
  ~TileKernels();

  int workers() const;
  InstructionSet instruction_set() const;         // what is used
  std::vector<ElementType> native_types() const;  // computed without conversion to f32
  static std::string OneDnnVersion();             // "2.6.3"

  // For TiledAttention: everything behind the seam.
  class State;
  State& state() const { return *state_; }

 private:
  explicit TileKernels(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_TILE_KERNELS_H_
