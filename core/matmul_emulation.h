// bf16 products on processors that have none: what a machine with them computes can be tested on any other.
#ifndef ATTEND_CORE_MATMUL_EMULATION_H_
#define ATTEND_CORE_MATMUL_EMULATION_H_

#include <memory>

#include "core/matmul.h"

namespace attend::core {

// `inner`, with its bf16 products made from its f32 ones: each operand is expanded to f32 before every product, which
// is exact, and slow. The same layouts, bounds and errors.
std::unique_ptr<Matmul> EmulateBFloat16(std::unique_ptr<Matmul> inner, int workers);

}  // namespace attend::core

#endif  // ATTEND_CORE_MATMUL_EMULATION_H_
