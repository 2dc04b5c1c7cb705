#include "core/instruction_set.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

TEST(InstructionSetTest, NamesRoundTrip) {
  for (const InstructionSet set :
       {InstructionSet::kAvx2, InstructionSet::kAvx512, InstructionSet::kAvx512Bf16, InstructionSet::kAmx}) {
    const auto parsed = ParseInstructionSet(InstructionSetName(set));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, set);
  }
}

TEST(InstructionSetTest, OtherNamesAreRefusedWithWhatIsAllowed) {
  for (const absl::string_view name : {"", "AVX2", "avx", "avx512_bf16 ", "sse4"}) {
    const auto parsed = ParseInstructionSet(name);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(parsed.status().message(), testing::HasSubstr("must be avx2, avx512, avx512_bf16 or amx"));
  }
}

TEST(InstructionSetTest, DetectionAgreesWithTheCompiler) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const auto detected = DetectInstructionSet();
  ASSERT_EQ(detected.ok(), avx2) << detected.status();
  if (!detected.ok()) {
    EXPECT_EQ(detected.status().code(), absl::StatusCode::kFailedPrecondition);
    return;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  EXPECT_EQ(*detected >= InstructionSet::kAvx512, avx512);
}

}  // namespace
}  // namespace attend::core
