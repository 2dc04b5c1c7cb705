#include "client/pending_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace attend::client {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PendingFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "pending_file_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::string Contents(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
};

TEST_F(PendingFileTest, AppearsWholeAndReplaces) {
  std::ofstream(Path("out")) << "old";
  {
    auto file = PendingFile::Create(Path("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("new ").ok());
    ASSERT_TRUE(file->Write("text").ok());
    EXPECT_EQ(Contents(Path("out")), "old");
    ASSERT_TRUE(file->Commit().ok());
  }
  EXPECT_EQ(Contents(Path("out")), "new text");
  EXPECT_THAT(Names(), ElementsAre("out"));
}

TEST_F(PendingFileTest, LeavesNothingWithoutCommit) {
  {
    auto file = PendingFile::Create(Path("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("half").ok());
    EXPECT_EQ(Names().size(), 1u);
    PendingFile moved = *std::move(file);
    EXPECT_EQ(Names().size(), 1u);
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PendingFileTest, TwoAtOnceHaveNamesOfTheirOwn) {
  auto first = PendingFile::Create(Path("out"));
  auto second = PendingFile::Create(Path("out"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->temporary_path(), second->temporary_path());
}

TEST_F(PendingFileTest, FollowsSymbolicLinks) {
  std::ofstream(Path("target")) << "old";
  fs::create_symlink("target", Path("link"));
  auto file = PendingFile::Create(Path("link"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("new").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Contents(Path("target")), "new");
}

TEST_F(PendingFileTest, NeverReplacesWhatIsNoFile) {
  for (const std::string& path : {std::string("/dev/null"), folder_.string()}) {
    EXPECT_THAT(PendingFile::Check(path).message(), HasSubstr("not a regular file"));
    EXPECT_THAT(PendingFile::Create(path).status().message(), HasSubstr("not a regular file"));
  }
}

TEST_F(PendingFileTest, NamesWhatIsWrongBeforeTheWork) {
  const absl::Status status = PendingFile::Check(Path("no/such/folder/out"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(Path("no/such/folder/out")));
  EXPECT_EQ(PendingFile::Create(Path("no/such/folder/out")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(PendingFile::Check(Path("out")).ok());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(PendingFileTest, FullDiskIsAnErrorAndLeavesNothing) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  // /dev/full cannot be the target itself, so the descriptor's file is limited instead: a write fails with EFBIG or
  // ENOSPC alike.
  auto file = PendingFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  const fs::path descriptors = "/proc/self/fd";
  for (const auto& entry : fs::directory_iterator(descriptors)) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) == file->temporary_path()) {
      ASSERT_GE(dup2(full, std::stoi(entry.path().filename())), 0);
    }
  }
  close(full);
  EXPECT_EQ(file->Write("text").code(), absl::StatusCode::kResourceExhausted);
  file = absl::CancelledError();
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace attend::client
