#include "server/ready_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

TEST(ReadyFileTest, IsThereWhileTheServerIs) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "ready_file_test";
  std::filesystem::create_directory(folder);
  const std::string path = folder / "ready.json";
  {
    const absl::StatusOr<std::unique_ptr<ReadyFile>> file =
        ReadyFile::Create(path, {.grpc_address = "127.0.0.1:1", .http_address = "[::1]:2", .process_id = 3});
    ASSERT_TRUE(file.ok()) << file.status();
    std::ifstream stream(path);
    const nlohmann::json json = nlohmann::json::parse(stream);
    EXPECT_EQ(json, nlohmann::json({{"grpc", "127.0.0.1:1"}, {"http", "[::1]:2"}, {"pid", 3}}));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "the temporary file is left";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReadyFileTest, SaysWhyItCannotBeWritten) {
  const absl::Status status = ReadyFile::Create("/nonexistent/ready.json", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/nonexistent/ready.json"), HasSubstr("No such file or directory")));
}

}  // namespace
}  // namespace attend::server
