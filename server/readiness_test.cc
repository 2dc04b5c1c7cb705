#include "server/readiness.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

class FixedClock : public core::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

class ReadinessTest : public ::testing::Test {
 protected:
  FixedClock clock_;
  absl::Time progress_ = absl::InfiniteFuture();
  absl::Status port_;
  Readiness readiness_{{.stuck_after = absl::Seconds(30),
                        .oldest_progress = [this] { return progress_; },
                        .check_port = [this] { return port_; },
                        .clock = &clock_}};
};

TEST_F(ReadinessTest, IsNotReadyUntilItIsSaid) {
  EXPECT_EQ(readiness_.Check(), absl::UnavailableError("starting"));
  readiness_.SetReady();
  EXPECT_TRUE(readiness_.Check().ok());
  EXPECT_TRUE(readiness_.CheckServing().ok());
}

TEST_F(ReadinessTest, DrainingIsForEver) {
  readiness_.SetReady();
  readiness_.SetDraining();
  EXPECT_EQ(readiness_.Check(), absl::UnavailableError("draining"));
  readiness_.SetReady();
  EXPECT_EQ(readiness_.CheckServing(), absl::UnavailableError("draining"));
}

TEST_F(ReadinessTest, IsStuckWhenTheOldestJobDoesNotAdvance) {
  readiness_.SetReady();
  progress_ = clock_.now - absl::Seconds(30);
  EXPECT_TRUE(readiness_.Check().ok());
  progress_ = clock_.now - absl::Seconds(31);
  EXPECT_THAT(std::string(readiness_.Check().message()), HasSubstr("has not advanced for 31s"));
  EXPECT_EQ(readiness_.CheckServing().code(), absl::StatusCode::kUnavailable);
  progress_ = clock_.now;
  EXPECT_TRUE(readiness_.Check().ok());
}

TEST_F(ReadinessTest, LooksAtThePortOnlyWhenAskedForAll) {
  readiness_.SetReady();
  port_ = absl::UnavailableError("Connection refused");
  EXPECT_EQ(readiness_.Check(), absl::UnavailableError("the gRPC port: Connection refused"));
  EXPECT_TRUE(readiness_.CheckServing().ok());
}

}  // namespace
}  // namespace attend::server
