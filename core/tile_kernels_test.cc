// The limit of the instruction set holds for the whole process, so this program has one of its own: bf16 products,
// which most processors must emulate.
#include "core/tile_kernels.h"

#include <omp.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/attention_problem.h"
#include "core/tiled_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

absl::StatusOr<std::unique_ptr<TileKernels>> Create(std::optional<InstructionSet> limit, BufferPool& buffers,
                                                    int workers = 1) {
  return TileKernels::Create({.workers = workers, .max_instruction_set = limit, .buffers = &buffers});
}

class TileKernelsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    BufferPool buffers(0);
    const auto first = Create(InstructionSet::kAvx512Bf16, buffers);
    ASSERT_TRUE(first.ok()) << first.status();
  }
  BufferPool buffers_{0};
};

TEST_F(TileKernelsTest, TheFirstLimitHoldsForTheProcess) {
  EXPECT_TRUE(Create(InstructionSet::kAvx512Bf16, buffers_).ok());
  EXPECT_TRUE(Create(std::nullopt, buffers_).ok()) << "asks for nothing";
  const auto other = Create(InstructionSet::kAvx2, buffers_);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.status().message(), testing::AllOf(testing::HasSubstr("avx2"), testing::HasSubstr("avx512_bf16")));
}

TEST_F(TileKernelsTest, UsesNoMoreThanItMayAndHas) {
  const auto kernels = Create(InstructionSet::kAvx512Bf16, buffers_, 3);
  ASSERT_TRUE(kernels.ok());
  EXPECT_LE((*kernels)->instruction_set(), InstructionSet::kAvx512Bf16);
  EXPECT_LE((*kernels)->instruction_set(), *DetectInstructionSet());
  EXPECT_EQ((*kernels)->workers(), 3);
  EXPECT_THAT((*kernels)->native_types(), testing::ElementsAre(ElementType::kFloat32, ElementType::kBFloat16));
}

TEST_F(TileKernelsTest, WorkersMustBePositive) {
  for (const int workers : {0, -1}) {
    EXPECT_EQ(Create(InstructionSet::kAvx512Bf16, buffers_, workers).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(TileKernelsTest, ReportsOneDnn) { EXPECT_THAT(TileKernels::OneDnnVersion(), testing::MatchesRegex("[0-9.]+")); }

// bf16 products all through: against a plain loop in double precision, on odd dims, with a causal mask and a NaN behind
// it.
TEST_F(TileKernelsTest, ComputesInBFloat16) {
  constexpr int64_t kQueries = 70, kKeys = 300, kHeadDim = 33, kValueDim = 48;
  auto problem = AttentionProblem::Create({.batch = 1,
                                           .query_heads = 1,
                                           .kv_heads = 1,
                                           .query_length = kQueries,
                                           .key_length = kKeys,
                                           .head_dim = kHeadDim,
                                           .value_dim = kValueDim},
                                          ElementType::kBFloat16, {.causal = CausalAlignment::kBottomRight},
                                          {.weights = true, .logsumexp = true});
  ASSERT_TRUE(problem.ok());
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  const auto make = [&](int64_t count) {
    std::vector<uint16_t> bits(count);
    for (uint16_t& x : bits) x = FloatToBFloat16(normal(random));
    return bits;
  };
  const auto query = make(kQueries * kHeadDim), key = make(kKeys * kHeadDim);
  auto value = make(kKeys * kValueDim);
  const int64_t last_seen = kKeys - kQueries + 9;  // by query 9
  value[(last_seen + 1) * kValueDim] = 0x7fc1;

  const auto kernels = Create(std::nullopt, buffers_);
  ASSERT_TRUE(kernels.ok());
  std::vector<uint16_t> output(kQueries * kValueDim);
  std::vector<float> weights(kQueries * kKeys), logsumexp(kQueries);
  auto job = TiledAttention::Create(*problem, {query.data(), key.data(), value.data()},
                                    {.output = output.data(), .weights = weights.data(), .logsumexp = logsumexp.data()},
                                    **kernels);
  ASSERT_TRUE(job.ok());
  omp_set_num_threads(1);
  while ((*job)->Step(0).outcome == TileSource::Outcome::kAdvanced) {
  }
  ASSERT_TRUE((*job)->finished() && (*job)->status().ok());

  for (int64_t i = 0; i < kQueries; ++i) {
    std::vector<double> w(kKeys, 0);
    double sum = 0;
    for (int64_t j = 0; j < problem->VisibleKeys(0, i).end; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < kHeadDim; ++d) {
        dot += double{BFloat16ToFloat(query[i * kHeadDim + d])} * BFloat16ToFloat(key[j * kHeadDim + d]);
      }
      sum += w[j] = std::exp(dot * problem->scale());
    }
    ASSERT_NEAR(logsumexp[i], std::log(sum), 1e-5);
    for (int64_t j = 0; j < kKeys; ++j) ASSERT_NEAR(weights[i * kKeys + j], w[j] / sum, 1e-6);
    for (int64_t d = 0; d < kValueDim; ++d) {
      double exact = 0;
      for (int64_t j = 0; j < problem->VisibleKeys(0, i).end; ++j)
        exact += w[j] / sum * BFloat16ToFloat(value[j * kValueDim + d]);
      const float got = BFloat16ToFloat(output[i * kValueDim + d]);
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(got)) << i << " " << d;
      } else {
        ASSERT_NEAR(got, exact, 0.01) << i << " " << d;
      }
    }
  }
}

}  // namespace
}  // namespace attend::core
