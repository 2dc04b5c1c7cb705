// The matrix products of tiles, behind a seam: oneDNN today, another back end or another version of it tomorrow.
//
// Two products make a tile, and both come in a small set of sizes, made at first use and kept, because making one costs
// more than running it:
//   scores [rows, keys] = query [rows, head_dim] . key^T [head_dim, keys]
//   output [rows, value_dim] (+)= weights [rows, keys] . value [keys, value_dim]
// All matrices are compact and row-major, but for the keys, which lie in the panels that the back end asks for. Where
// few rows read them, transposing them into panels would cost more than it saves: some back ends take them as they are.
#ifndef ATTEND_CORE_MATMUL_H_
#define ATTEND_CORE_MATMUL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attend::core {

// Keys of a tile begin at multiples of kKeyBlock and are trimmed to multiples of kKeyGranule. A result's bits depend on
// kKeyBlock, so it is one number for every machine, thread count and shape.
inline constexpr int kKeyGranule = 64;
inline constexpr int kKeyBlock = 256;
// Rows of a tile, at most.
inline constexpr int kMaxTileRows = 128;
// head_dim and value_dim of products are multiples of this.
inline constexpr int kDimGranule = 16;

// The element type of query, key, weights and value in the products. Sums and results are f32.
enum class ProductType { kFloat32, kBFloat16 };

constexpr int64_t ProductBytes(ProductType type) { return type == ProductType::kFloat32 ? 4 : 2; }

// Where element d of key j lies, in elements: (j / keys * head_dim + d) * row_stride + j % keys.
struct KeyPanels {
  int keys = 0;        // of one panel: kKeyGranule, or kKeyBlock
  int row_stride = 0;  // at least keys
  // Whether Scores() reads f32 keys as they are, too, with the same bits.
  bool or_rows = false;

  friend bool operator==(const KeyPanels&, const KeyPanels&) = default;
};

// One of the two products, for one type and one dim. Immutable and thread-safe, but for the worker rule below.
class TileProduct {
 public:
  struct Operands {
    int rows = 0;             // one of Matmul::PaddedRows
    int keys = 0;             // a multiple of kKeyGranule, at most kKeyBlock
    bool accumulate = false;  // add to result rather than write it (weighted sums only)
    bool key_rows = false;    // right is rows [keys, head_dim] rather than panels (scores only, if KeyPanels::or_rows)
    const void* left = nullptr;
    const void* right = nullptr;
    float* result = nullptr;
  };

  virtual ~TileProduct() = default;

  // Runs on the calling thread alone. Two calls at the same time need different workers, in [0, workers).
  // INTERNAL if the back end fails, RESOURCE_EXHAUSTED if it finds no memory.
  virtual absl::Status Run(int worker, const Operands& operands) const = 0;
};

// Thread-safe. Everything it hands out may be used after it is gone.
class Matmul {
 public:
  virtual ~Matmul() = default;

  // The rows that a tile of `rows` rows, 1 to kMaxTileRows, is padded to: a number for which a row's bits do not depend
  // on how many others there are.
  virtual int PaddedRows(int rows) const = 0;

  // The panels that Scores() reads. `head_dim` is a multiple of kDimGranule, as is `value_dim`. INTERNAL from all
  // three.
  virtual absl::StatusOr<KeyPanels> Panels(ProductType type, int head_dim) = 0;
  virtual absl::StatusOr<std::shared_ptr<const TileProduct>> Scores(ProductType type, int head_dim) = 0;
  virtual absl::StatusOr<std::shared_ptr<const TileProduct>> WeightedSum(ProductType type, int value_dim) = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_MATMUL_H_
