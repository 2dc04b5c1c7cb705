// Moving rows into the form that products read: converted, transposed, padded with zeros. SIMD, dispatched at run time.
#ifndef ATTEND_CORE_PACKING_H_
#define ATTEND_CORE_PACKING_H_

#include <cstdint>

#include "core/element_type.h"
#include "core/matmul.h"

namespace attend::core {

// Rows of `dim` elements of `type`, `stride` elements apart. Aligned to an element.
struct SourceRows {
  const void* first = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  int dim = 0;
  ElementType type = ElementType::kFloat32;
  bool rounded = false;  // read elements of type f32 as the nearest bf16, ties to even

  // Row i.
  const void* row(int64_t i) const {
    return static_cast<const char*>(first) + i * stride * static_cast<int64_t>(ElementBytes(type));
  }
};

// Copies rows one after the other to `out`, each padded with zeros to `padded_dim` elements of type `to`, and writes
// whole rows of zeros up to `padded_count`. To bf16 from bf16, or from f32, rounded.
void PackRows(const SourceRows& rows, int padded_dim, int64_t padded_count, ProductType to, void* out);

// Transposes at most `panel.keys` rows into one panel (core/matmul.h says how its elements lie): `padded_dim` rows, of
// which `padded_count` columns are written, those from rows.count on and the rows from rows.dim on as zeros.
// `padded_count` is a multiple of kKeyGranule. To bf16 from bf16, or from f32, rounded.
void PackKeyPanel(const SourceRows& rows, int padded_dim, int padded_count, const KeyPanels& panels, ProductType to,
                  void* out);

// Whether no element is infinite or NaN.
bool AllFinite(const SourceRows& rows);

// `count` bf16 numbers, exactly.
void ExpandBFloat16(const uint16_t* from, int64_t count, float* to);

}  // namespace attend::core

#endif  // ATTEND_CORE_PACKING_H_
