#include "server/rate_sampler.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

TEST(RateSamplerTest, LetsThroughSoManyInASecondAndCountsTheOthers) {
  RateSampler sampler(2);
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(sampler.Admit(start), 0);
  EXPECT_EQ(sampler.Admit(start), 0);
  EXPECT_EQ(sampler.Admit(start + absl::Milliseconds(1)), std::nullopt);
  EXPECT_EQ(sampler.Admit(start + absl::Milliseconds(999)), std::nullopt);
  EXPECT_EQ(sampler.Admit(start + absl::Seconds(1)), 2);
  EXPECT_EQ(sampler.Admit(start + absl::Seconds(1)), 0);
  EXPECT_EQ(sampler.Admit(start + absl::Seconds(1)), std::nullopt);
}

TEST(RateSamplerTest, OfNoneLetsNothingThrough) {
  RateSampler sampler(0);
  EXPECT_EQ(sampler.Admit(absl::UnixEpoch()), std::nullopt);
  EXPECT_EQ(sampler.Admit(absl::UnixEpoch() + absl::Seconds(5)), std::nullopt);
}

}  // namespace
}  // namespace attend::server
