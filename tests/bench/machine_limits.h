// What this machine can do at most, measured with nothing of attention: products by oneDNN and plain reading.
#ifndef ATTEND_TESTS_BENCH_MACHINE_LIMITS_H_
#define ATTEND_TESTS_BENCH_MACHINE_LIMITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/element_type.h"

namespace attend::bench {

// A product of two matrices of kSize x kSize by a oneDNN primitive on OpenMP's threads, the second matrix packed
// beforehand as the primitive likes it. Results are f32 for f32 and bf16 inputs. f16 is not offered.
class LargeMatmul {
 public:
  static constexpr int kSize = 2048;
  static constexpr double kOperations = 2.0 * kSize * kSize * kSize;

  // UNIMPLEMENTED where oneDNN has no such product for this processor: bf16 below AVX-512.
  static absl::StatusOr<std::unique_ptr<LargeMatmul>> Create(core::ElementType type);
  ~LargeMatmul();
  // On `workers` threads.
  void Run(int workers);

 private:
  struct State;
  explicit LargeMatmul(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Products of the size of a tile, 256 x 256 x 128, on every worker at once, each on data of its own that stays in its
// caches. Neighbours cannot spoil it by memory traffic, nor a slow thread by making others wait.
class TileMatmuls {
 public:
  // As above.
  static absl::StatusOr<std::unique_ptr<TileMatmuls>> Create(core::ElementType type, int workers);
  ~TileMatmuls();
  // Operations per second, all workers together, each by its own clock.
  double Rate();

 private:
  struct Tile;
  TileMatmuls() = default;
  std::vector<std::unique_ptr<Tile>> tiles_;
};

// Reads kBytes once, in pieces that `workers` threads take in turns.
class PlainRead {
 public:
  static constexpr int64_t kBytes = int64_t{256} << 20;

  PlainRead();
  // Returns a sum of what was read, so that it is read.
  uint64_t Run(int workers) const;

 private:
  std::vector<uint64_t> words_;
};

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_MACHINE_LIMITS_H_
