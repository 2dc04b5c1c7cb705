#include "core/instruction_set.h"

#include <cpuid.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attend::core {
namespace {

constexpr std::array kAll = {InstructionSet::kAvx2, InstructionSet::kAvx512, InstructionSet::kAvx512Bf16,
                             InstructionSet::kAmx};

// What CPUID reports and the operating system saves (XCR0). GCC's and clang's own tests differ in the names that they
// know, and neither knows AMX in every version that must build this.
struct Processor {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint64_t saved_state = 0;
};

uint64_t ReadXcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

Processor ReadProcessor() {
  constexpr uint32_t kOsXsave = 1u << 27;
  Processor cpu;
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return cpu;
  cpu.leaf1_ecx = ecx;
  if ((ecx & kOsXsave) != 0) cpu.saved_state = ReadXcr0();
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return cpu;
  cpu.leaf7_ebx = ebx;
  cpu.leaf7_edx = edx;
  if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) cpu.leaf7_1_eax = eax;
  return cpu;
}

constexpr bool Has(uint64_t bits, uint64_t wanted) { return (bits & wanted) == wanted; }

bool HasAvx512(const Processor& cpu) {
  constexpr uint32_t kFoundationDqBwVl = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);
  constexpr uint64_t kZmmState = 0xe6;
  return Has(cpu.leaf7_ebx, kFoundationDqBwVl) && Has(cpu.saved_state, kZmmState);
}

bool HasAvx512Bf16(const Processor& cpu) { return HasAvx512(cpu) && Has(cpu.leaf7_1_eax, 1u << 5); }

bool HasAmx(const Processor& cpu) {
  constexpr uint32_t kTileAndBf16 = (1u << 24) | (1u << 22);
  constexpr uint64_t kTileState = 3u << 17;
  return HasAvx512Bf16(cpu) && Has(cpu.leaf7_edx, kTileAndBf16) && Has(cpu.saved_state, kTileState);
}

// What of kAvx2 is missing, in words; empty if nothing is.
std::string MissingForAvx2(const Processor& cpu) {
  constexpr uint64_t kYmmState = 6;
  std::string missing;
  const auto need = [&missing](bool present, absl::string_view name) {
    if (!present) absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  };
  need(Has(cpu.leaf7_ebx, 1u << 5), "AVX2");
  need(Has(cpu.leaf1_ecx, 1u << 12), "FMA");
  need(Has(cpu.leaf1_ecx, 1u << 29), "F16C");
  need(Has(cpu.saved_state, kYmmState), "saving of the AVX registers by the operating system");
  return missing;
}

}  // namespace

absl::string_view InstructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
    case InstructionSet::kAmx:
      return "amx";
  }
  return "";
}

absl::StatusOr<InstructionSet> ParseInstructionSet(absl::string_view name) {
  for (const InstructionSet set : kAll) {
    if (InstructionSetName(set) == name) return set;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("instruction set is \"", name, "\", must be avx2, avx512, avx512_bf16 or amx"));
}

absl::StatusOr<InstructionSet> DetectInstructionSet() {
  const Processor cpu = ReadProcessor();
  const std::string missing = MissingForAvx2(cpu);
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("this processor lacks ", missing, ", which attend needs"));
  }
  if (HasAmx(cpu)) return InstructionSet::kAmx;
  if (HasAvx512Bf16(cpu)) return InstructionSet::kAvx512Bf16;
  if (HasAvx512(cpu)) return InstructionSet::kAvx512;
  return InstructionSet::kAvx2;
}

}  // namespace attend::core
