#include "client/load_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace attend::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(LoadProgress, IsSilentWithoutATerminal) {
  std::ostringstream stream;
  {
    LoadProgress progress(stream, false);
    progress.StartPart("length 512", 1, 3);
    progress.ShowPhase("warming up");
    progress.ShowMeasurement(LoadMeasurement(), absl::Seconds(1));
  }
  EXPECT_EQ(stream.str(), "");
}

TEST(LoadProgress, DrawsOverItsLineAndLeavesItEmpty) {
  std::ostringstream stream;
  {
    LoadProgress progress(stream, true);
    progress.StartPart("length 512", 1, 3);
    progress.ShowPhase("warming up");
    EXPECT_THAT(stream.str(), EndsWith("\r\x1b[Klength 512 (1 of 3): warming up"));
    LoadMeasurement seen;
    seen.Add({.status = absl::OkStatus()}, absl::Milliseconds(20));
    seen.Add({.status = absl::UnavailableError("gone")}, absl::Milliseconds(20));
    progress.ShowMeasurement(seen, absl::Milliseconds(500));
    EXPECT_THAT(stream.str(), EndsWith("length 512 (1 of 3): 0.5 s, 1 calls, 1 failed, 20 ms each"));
    progress.ShowMeasurement(seen, absl::Milliseconds(600));
    EXPECT_THAT(stream.str(), EndsWith("0.5 s, 1 calls, 1 failed, 20 ms each"))
        << "not more often than 5 times a second";
    progress.ShowMeasurement(seen, absl::Milliseconds(700));
    EXPECT_THAT(stream.str(), HasSubstr("0.7 s"));
  }
  EXPECT_THAT(stream.str(), EndsWith("\r\x1b[K"));
}

}  // namespace
}  // namespace attend::client
