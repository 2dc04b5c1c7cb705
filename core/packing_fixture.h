// For the tests of what reads rows: rows of any element type.
#ifndef ATTEND_CORE_PACKING_FIXTURE_H_
#define ATTEND_CORE_PACKING_FIXTURE_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/element_type.h"
#include "core/packing.h"

namespace attend::core {

// Rows in memory that ends exactly with the last element: what reads beyond is found by the sanitizers.
struct Source {
  std::vector<unsigned char> bytes;
  std::vector<float> numbers;  // what they are, [count, dim]
  SourceRows rows;

  Source(ElementType type, int64_t count, int dim, int64_t stride, unsigned seed)
      : bytes(((count - 1) * stride + dim) * ElementBytes(type)),
        numbers(count * dim),
        rows{.first = bytes.data(), .stride = stride, .count = count, .dim = dim, .type = type} {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) {
      for (int d = 0; d < dim; ++d) Set(i, d, normal(random));
    }
  }

  void Set(int64_t i, int d, float number) {
    unsigned char* const to = &bytes[(i * rows.stride + d) * ElementBytes(rows.type)];
    float& kept = numbers[i * rows.dim + d];
    if (rows.type == ElementType::kFloat32) {
      std::memcpy(to, &number, sizeof(number));
      kept = number;
      return;
    }
    const bool brain = rows.type == ElementType::kBFloat16;
    const uint16_t bits = brain ? FloatToBFloat16(number) : FloatToFloat16(number);
    std::memcpy(to, &bits, sizeof(bits));
    kept = brain ? BFloat16ToFloat(bits) : Float16ToFloat(bits);
  }
  // Rows of f32 numbers, each the bf16 number that is nearest to that of these.
  Source Nearest() const {
    Source nearest(ElementType::kFloat32, rows.count, rows.dim, rows.stride, 0);
    for (int64_t i = 0; i < rows.count; ++i) {
      for (int d = 0; d < rows.dim; ++d) nearest.Set(i, d, BFloat16ToFloat(FloatToBFloat16(Get(i, d))));
    }
    return nearest;
  }

  float Get(int64_t i, int d) const { return i < rows.count && d < rows.dim ? numbers[i * rows.dim + d] : 0; }
};

}  // namespace attend::core

#endif  // ATTEND_CORE_PACKING_FIXTURE_H_
