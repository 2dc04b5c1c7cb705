#include "client/npy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class NpyFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "npy_file_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::string Store(const std::string& name, const std::string& contents) const {
    std::ofstream(Path(name), std::ios::binary) << contents;
    return Path(name);
  }

  fs::path folder_;
};

TEST_F(NpyFileTest, RoundTrip) {
  const float elements[] = {1.5f, -2.0f, 0.0f, 3.25f, 1e-40f, 7.0f};
  auto file = PendingFile::Create(Path("x.npy"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(WriteNpy({.name = "", .shape = {2, 3}, .data = std::as_bytes(std::span(elements))}, *file).ok());
  ASSERT_TRUE(file->Commit().ok());
  auto array = ReadNpyFile(Path("x.npy"));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->type, ArrayType::kFloat32);
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(array->bytes, static_cast<int64_t>(sizeof(elements)));
  const auto expected = std::as_bytes(std::span(elements));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), array->data.get()));
}

TEST_F(NpyFileTest, EmptyArrays) {
  auto array = ReadNpyFile(Store("empty.npy", EncodeNpyHeader(ArrayType::kFloat32, {0, 64})));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->bytes, 0);
}

TEST_F(NpyFileTest, MessagesNameTheFile) {
  const std::string truncated = Store("q.npy", EncodeNpyHeader(ArrayType::kFloat32, {2, 3}) + std::string(23, 'x'));
  EXPECT_THAT(Message(ReadNpyFile(truncated).status()),
              AllOf(StartsWith(truncated + ": "), HasSubstr("takes 24 bytes, the file has 23")));
  const absl::Status absent = ReadNpyFile(Path("absent.npy")).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(absent), StartsWith(Path("absent.npy") + ": cannot be read: No such file"));
  EXPECT_THAT(ReadNpyFile(Store("text.npy", "hello")).status().message(), HasSubstr("no npy file"));
  EXPECT_THAT(ReadNpyFile(Store("nothing.npy", "")).status().message(), HasSubstr("no npy file"));
}

TEST_F(NpyFileTest, OnlyRegularFilesAreRead) {
  EXPECT_THAT(ReadNpyFile(folder_.string()).status().message(), HasSubstr("is not a regular file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ReadNpyFile(Path("pipe")).status().message(), HasSubstr("is not a regular file"));
}

// A sparse file whose size agrees with its shape costs nothing on disk; reading it must fail, not end the program.
TEST_F(NpyFileTest, NoMemoryIsAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the program at an allocation of this size";
#endif
  const std::vector<int64_t> shape = {int64_t{1} << 42};
  const std::string header = EncodeNpyHeader(ArrayType::kBool, shape);
  const std::string path = Store("sparse.npy", header);
  if (truncate(path.c_str(), static_cast<off_t>(header.size()) + shape[0]) != 0) {
    GTEST_SKIP() << "no sparse files of 4 TiB here";
  }
  auto array = ReadNpyFile(path);
  EXPECT_EQ(array.status().code(), absl::StatusCode::kResourceExhausted) << array.status();
}

}  // namespace
}  // namespace attend::client
