#include "server/quantity.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

TEST(QuantityTest, ReadsDurations) {
  EXPECT_EQ(*ParseDuration("500ms"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseDuration("30s"), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDuration("off"), absl::InfiniteDuration());
}

TEST(QuantityTest, RefusesWhatIsNoDuration) {
  for (const std::string text : {"", "30", "-1s", "inf", "-inf", "s", "1 s", "30seconds", "OFF"}) {
    EXPECT_EQ(ParseDuration(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(QuantityTest, WritesDurationsAsTheyAreRead) {
  for (const std::string text : {"500ms", "30s", "1h30m", "0", "off"}) {
    EXPECT_EQ(DescribeDuration(*ParseDuration(text)), text);
  }
}

TEST(QuantityTest, ReadsSizes) {
  const std::pair<std::string, int64_t> sizes[] = {
      {"0", 0},
      {"1048576", 1048576},
      {"16B", 16},
      {"16KiB", 16384},
      {"512MiB", 536870912},
      {"2GiB", 1L << 31},
      {"1TiB", int64_t{1} << 40},
      {"1.5KiB", 1536},
      {"3kB", 3000},
      {"3MB", 3000000},
      {"50%", 500},
      {"0%", 0},
      {"100%", 1000},
      {"12.5%", 125},
  };
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(ByteSize::Parse(text)->Of(1000), bytes) << text;
}

TEST(QuantityTest, RefusesWhatIsNoSize) {
  for (const std::string text : {"", "MiB", "-1", "1 MiB", "1mib", "101%", "5000000TiB", "1e30", "..", "nan", "12x"}) {
    EXPECT_EQ(ByteSize::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(QuantityTest, WritesSizesInTheLargestUnitThatIsExact) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1000), "1000");
  EXPECT_EQ(FormatBytes(16384), "16KiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 20), "3MiB");
  EXPECT_EQ(FormatBytes(int64_t{4} << 30), "4GiB");
  EXPECT_EQ(FormatBytes((int64_t{4} << 30) + 1), "4294967297");
}

}  // namespace
}  // namespace attend::server
