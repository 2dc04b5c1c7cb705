#include "server/descriptor_budget.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace attend::server {
namespace {

TEST(DescriptorBudgetTest, LeavesSomeForHttpAndForTheRest) {
  const DescriptorBudget small = DivideDescriptors(128);
  EXPECT_EQ(small.limit, 128);
  EXPECT_EQ(small.max_http_connections, 32);
  EXPECT_EQ(small.grpc_descriptor_end, 128 - 32 - 16);
}

TEST(DescriptorBudgetTest, HttpNeverNeedsMoreThanSoMany) {
  const DescriptorBudget large = DivideDescriptors(1 << 20);
  EXPECT_EQ(large.max_http_connections, 512);
  EXPECT_EQ(large.grpc_descriptor_end, (1 << 20) - 512 - 16);
}

TEST(DescriptorBudgetTest, AnyLimitHasABudget) {
  for (const int64_t limit : {int64_t{0}, int64_t{3}, int64_t{16}, INT64_MAX}) {
    const DescriptorBudget budget = DivideDescriptors(limit);
    EXPECT_GE(budget.max_http_connections, 1) << limit;
    EXPECT_GE(budget.grpc_descriptor_end, 0) << limit;
  }
}

TEST(DescriptorBudgetTest, RaisesTheSoftLimit) {
  const int64_t before = DescriptorLimit();
  RaiseDescriptorLimit();
  EXPECT_GE(DescriptorLimit(), before);
}

}  // namespace
}  // namespace attend::server
