#include "core/violation.h"

#include <string>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

TEST(ViolationTest, TravelsWithTheStatus) {
  const absl::Status status = InvalidArgument(
      {.field = "head_dim", .reason = "DIM_OUT_OF_RANGE", .value = "0", .limit = "in [1, 1024]"}, "no good");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "no good");
  const auto violation = GetViolation(status);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, "head_dim");
  EXPECT_EQ(violation->reason, "DIM_OUT_OF_RANGE");
  EXPECT_EQ(violation->value, "0");
  EXPECT_EQ(violation->limit, "in [1, 1024]");
}

TEST(ViolationTest, UsualMessageNamesFieldValueAndLimit) {
  EXPECT_EQ(InvalidArgument({.field = "head_dim", .reason = "R", .value = "0", .limit = "in [1, 1024]"}).message(),
            "head_dim is 0, must be in [1, 1024]");
}

TEST(ViolationTest, TextsMayHoldAnything) {
  const std::string odd("3:a\0:\xff", 6);
  const auto violation = GetViolation(InvalidArgument({.field = odd, .reason = "", .value = odd, .limit = ":"}));
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, odd);
  EXPECT_EQ(violation->reason, "");
  EXPECT_EQ(violation->value, odd);
  EXPECT_EQ(violation->limit, ":");
}

TEST(ViolationTest, OtherStatusesCarryNone) {
  EXPECT_FALSE(GetViolation(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetViolation(absl::InvalidArgumentError("no payload")).has_value());
  absl::Status torn = absl::InvalidArgumentError("torn");
  torn.SetPayload("attend.core/Violation", absl::Cord("9:short"));
  EXPECT_FALSE(GetViolation(torn).has_value());
}

}  // namespace
}  // namespace attend::core
