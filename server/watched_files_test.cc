#include "server/watched_files.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WatchedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(one_, "one");
    Write(two_, "two");
  }
  void TearDown() override {
    std::remove(one_.c_str());
    std::remove(two_.c_str());
  }

  static void Write(const std::string& path, const std::string& content) { std::ofstream(path) << content; }

  // Contents with an X are bad.
  absl::Status Use(const std::vector<std::string>& contents) {
    ++tried_;
    for (const std::string& content : contents) {
      if (content.find('X') != std::string::npos) return absl::InvalidArgumentError(absl::StrCat("bad ", content));
    }
    used_ = contents;
    return absl::OkStatus();
  }

  const std::string one_ = absl::StrCat(::testing::TempDir(), "watched_files_test_one");
  const std::string two_ = absl::StrCat(::testing::TempDir(), "watched_files_test_two");
  std::vector<std::string> used_;
  int tried_ = 0;
  WatchedFiles files_{{{"a_file", one_}, {"b_file", two_}}, [this](const auto& contents) { return Use(contents); }};
};

TEST_F(WatchedFilesTest, AreUsedAtFirstAndWhenTheyHaveChanged) {
  EXPECT_EQ(files_.Look().value(), true);
  EXPECT_THAT(used_, ElementsAre("one", "two"));
  EXPECT_EQ(files_.Look().value(), false);
  EXPECT_EQ(tried_, 1);
  Write(two_, "2");
  EXPECT_EQ(files_.Look().value(), true);
  EXPECT_THAT(used_, ElementsAre("one", "2"));
}

TEST_F(WatchedFilesTest, BadOnesAreReportedOnceAndTriedAgain) {
  ASSERT_EQ(files_.Look().value(), true);
  Write(one_, "X");
  EXPECT_THAT(std::string(files_.Look().status().message()), HasSubstr("bad X"));
  EXPECT_EQ(files_.Look().value(), false);
  EXPECT_EQ(tried_, 3) << "what is too early today may be good tomorrow";
  Write(one_, "XX");
  EXPECT_THAT(std::string(files_.Look().status().message()), HasSubstr("bad XX"));
  EXPECT_THAT(used_, ElementsAre("one", "two"));
  Write(one_, "one");
  EXPECT_EQ(files_.Look().value(), false) << "as it was";
  Write(one_, "XX");
  EXPECT_FALSE(files_.Look().ok()) << "bad once more";
  Write(one_, "1");
  EXPECT_EQ(files_.Look().value(), true);
  EXPECT_THAT(used_, ElementsAre("1", "two"));
}

TEST_F(WatchedFilesTest, AFileThatCannotBeReadIsNamed) {
  std::remove(two_.c_str());
  const absl::Status absent = files_.Look().status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(absent.message()), HasSubstr(absl::StrCat("b_file ", two_, " cannot be read: No such file")));
  Write(two_, std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(std::string(files_.Look().status().message()), HasSubstr("at most 1 MiB"));
  Write(two_, std::string(1 << 20, 'x'));
  EXPECT_EQ(files_.Look().value(), true);
  WatchedFiles folder({{"folder", ::testing::TempDir()}}, [](const auto&) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(folder.Look().status().message()), HasSubstr("not a regular file"));
}

// Nobody writes to it: whoever opened it as a file would wait for ever.
TEST_F(WatchedFilesTest, APipeIsRefusedAtOnce) {
  ASSERT_EQ(files_.Look().value(), true);
  std::remove(two_.c_str());
  ASSERT_EQ(mkfifo(two_.c_str(), 0600), 0);
  const absl::Status pipe = files_.Look().status();
  EXPECT_EQ(pipe.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(pipe.message()), HasSubstr(absl::StrCat("b_file ", two_, " is not a regular file")));
  EXPECT_THAT(used_, ElementsAre("one", "two"));
}

}  // namespace
}  // namespace attend::server
