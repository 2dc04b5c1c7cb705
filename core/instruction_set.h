// Which instructions the tiles are computed with. Decided once, at run time; nothing in core is compiled for one
// machine.
#ifndef ATTEND_CORE_INSTRUCTION_SET_H_
#define ATTEND_CORE_INSTRUCTION_SET_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attend::core {

// In ascending order; each includes those before it.
enum class InstructionSet {
  kAvx2,        // AVX2, FMA and F16C: the least that is supported
  kAvx512,      // AVX-512 F, BW, VL, DQ
  kAvx512Bf16,  // and its bfloat16 products
  kAmx,         // and AMX's bfloat16 tiles
};

// "avx2", "avx512", "avx512_bf16", "amx".
absl::string_view InstructionSetName(InstructionSet set);

// The inverse of InstructionSetName. INVALID_ARGUMENT for any other text.
absl::StatusOr<InstructionSet> ParseInstructionSet(absl::string_view name);

// The best that this processor has. FAILED_PRECONDITION, with what is missing, below kAvx2.
absl::StatusOr<InstructionSet> DetectInstructionSet();

}  // namespace attend::core

#endif  // ATTEND_CORE_INSTRUCTION_SET_H_
