// What the compute pool works on: something that several workers can advance at once, a tile at a time.
//
// Virtual, so that the scheduler is tested without matrix products, and so that decoding and chunked inputs can come as
// further sources without a change to the pool.
#ifndef ATTEND_CORE_TILE_SOURCE_H_
#define ATTEND_CORE_TILE_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace attend::core {

class TileSource {
 public:
  enum class Outcome {
    kAdvanced,   // ran a tile; ask again
    kBlocked,    // nothing can run now: it waits for a tile that another worker is running
    kExhausted,  // nothing is left for this worker, ever
  };
  struct StepResult {
    Outcome outcome = Outcome::kExhausted;
    int64_t multiply_adds = 0;  // work of the tile, for the scheduler's shares (packing counts what its bytes cost)
    bool packing = false;       // the tile packed keys and values rather than computed
  };

  virtual ~TileSource() = default;

  // Runs at most one tile on behalf of `worker`, in [0, workers). Workers may call it at the same time, each for its
  // own number; one worker's half-finished query block stays in the source until its next call. Never blocks.
  virtual StepResult Step(int worker) = 0;

  // True once every tile has run. Exactly the Step that runs the last tile makes it true, before it returns.
  virtual bool finished() const = 0;

  // OK, or what went wrong in a tile. Meaningful once finished().
  virtual absl::Status status() const = 0;

  // How many workers can be useful at the start, at least 1; the pool wakes no more.
  virtual int parallelism() const = 0;

  // Estimated multiply-adds in total.
  virtual int64_t total_multiply_adds() const = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_TILE_SOURCE_H_
