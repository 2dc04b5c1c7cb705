#include "server/warm_up.h"

#include "core/buffer_pool.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

TEST(WarmUpTest, TheKnownAnswerComesOutAndARateIsMeasured) {
  constexpr int kWorkers = 2;
  core::BufferPool buffers(0);
  absl::StatusOr<std::unique_ptr<core::TileKernels>> kernels =
      core::TileKernels::Create({.workers = kWorkers, .max_instruction_set = std::nullopt, .buffers = &buffers});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  absl::StatusOr<std::unique_ptr<core::ComputePool>> pool = core::ComputePool::Create({.workers = kWorkers});
  ASSERT_TRUE(pool.ok()) << pool.status();

  EXPECT_TRUE(CheckKnownAnswer(**pool, **kernels).ok()) << CheckKnownAnswer(**pool, **kernels);
  const absl::StatusOr<double> rate = MeasureRate(**pool, **kernels);
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_GT(*rate, 1e6);
  EXPECT_LT(*rate, 1e15);
}

}  // namespace
}  // namespace attend::server
