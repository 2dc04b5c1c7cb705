#include "client/latency_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace attend::client {
namespace {

TEST(LatencyRecord, NearestRank) {
  LatencyRecord record;
  std::vector<int> milliseconds;
  for (int i = 1; i <= 100; ++i) milliseconds.push_back(i);
  std::shuffle(milliseconds.begin(), milliseconds.end(), std::mt19937(1));
  for (const int i : milliseconds) record.Add(absl::Milliseconds(i));
  EXPECT_EQ(absl::ToInt64Milliseconds(record.Percentile(50)), 50);
  EXPECT_EQ(absl::ToInt64Milliseconds(record.Percentile(90)), 90);
  EXPECT_EQ(absl::ToInt64Milliseconds(record.Percentile(99)), 99);
  EXPECT_EQ(absl::ToInt64Milliseconds(record.Percentile(99.5)), 100);
  EXPECT_EQ(absl::ToInt64Milliseconds(record.Percentile(0.1)), 1);
  EXPECT_EQ(record.max(), absl::Milliseconds(100));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(record.mean()), 50.5, 1e-6);
}

TEST(LatencyRecord, FewCalls) {
  LatencyRecord record;
  EXPECT_EQ(record.Percentile(50), absl::ZeroDuration());
  EXPECT_EQ(record.max(), absl::ZeroDuration());
  EXPECT_EQ(record.mean(), absl::ZeroDuration());
  record.Add(absl::Seconds(3));
  EXPECT_EQ(record.Percentile(1), absl::Seconds(3));
  EXPECT_EQ(record.Percentile(99), absl::Seconds(3));
  record.Add(absl::Seconds(1));
  EXPECT_EQ(record.Percentile(50), absl::Seconds(1)) << "adding after a percentile was asked for";
  EXPECT_EQ(record.Percentile(99), absl::Seconds(3));
}

TEST(LatencyRecord, KeepsASampleBeyondItsCapacity) {
  LatencyRecord record(1000);
  for (int i = 0; i < 100000; ++i) record.Add(absl::Microseconds(i));
  EXPECT_EQ(record.count(), 100000);
  EXPECT_EQ(absl::ToInt64Microseconds(record.max()), 99999);
  EXPECT_NEAR(absl::ToDoubleMicroseconds(record.Percentile(50)), 50000, 6000);
  EXPECT_NEAR(absl::ToDoubleMicroseconds(record.Percentile(99)), 99000, 1500);
}

}  // namespace
}  // namespace attend::client
