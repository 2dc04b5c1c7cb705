#include "client/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "client/safetensors_header.h"
#include "client/temporary_folder.h"

namespace attend::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kElements[] = {1.5f, -2.0f, 0.0f, 3.25f, 1e-40f, 7.0f};
constexpr uint16_t kHalves[] = {0x3f80, 0x4000, 0x4040};

class SafetensorsFileTest : public ::testing::Test {
 protected:
  absl::Status Write(const std::string& name, const std::vector<NamedArray>& arrays) {
    auto file = PendingFile::Create(folder_.Path(name));
    if (!file.ok()) return file.status();
    if (absl::Status status = WriteSafetensors(arrays, *file); !status.ok()) return status;
    return file->Commit();
  }

  absl::Status WriteTwo() {
    return Write(
        "x.safetensors",
        {{.name = "half", .type = ArrayType::kBFloat16, .shape = {3}, .data = std::as_bytes(std::span(kHalves))},
         {.name = "query", .shape = {2, 3}, .data = std::as_bytes(std::span(kElements))}});
  }

  std::string Refusal(const std::string& contents) {
    const auto array = ReadSafetensorsFile(folder_.Store("bad.safetensors", contents), "query");
    EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument) << array.status();
    return std::string(array.status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsFileTest, RoundTrip) {
  ASSERT_TRUE(WriteTwo().ok());
  auto query = ReadSafetensorsFile(folder_.Path("x.safetensors"), "query");
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->type, ArrayType::kFloat32);
  EXPECT_THAT(query->shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(query->data.get(), std::as_bytes(std::span(kElements)).data(), sizeof(kElements)), 0);
  auto half = ReadSafetensorsFile(folder_.Path("x.safetensors"), "half");
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->type, ArrayType::kBFloat16);
  EXPECT_EQ(std::memcmp(half->data.get(), kHalves, sizeof(kHalves)), 0);
}

// Readers map the file: a float must begin at a multiple of its size, whatever was asked for first.
TEST_F(SafetensorsFileTest, LargeElementsComeFirst) {
  ASSERT_TRUE(WriteTwo().ok());
  const std::string contents = folder_.Contents("x.safetensors");
  EXPECT_THAT(contents, HasSubstr(R"("query":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})"));
  EXPECT_THAT(contents, HasSubstr(R"("half":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]})"));
}

TEST_F(SafetensorsFileTest, SaysWhichTensorsThereAre) {
  ASSERT_TRUE(WriteTwo().ok());
  const absl::Status status = ReadSafetensorsFile(folder_.Path("x.safetensors"), "key").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("x.safetensors: holds 'query', 'half', and none named 'key' (FILE:NAME takes another)"));
}

TEST_F(SafetensorsFileTest, TypesThatAreNotOurs) {
  const std::string json = R"({"query":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  const std::string start(1, static_cast<char>(json.size()));
  EXPECT_THAT(Refusal(start + std::string(7, '\0') + json + "12345678"),
              HasSubstr("bad.safetensors:query: the elements are F64, must be F32, F16, BF16, BOOL or I64"));
}

TEST_F(SafetensorsFileTest, MessagesNameTheFile) {
  EXPECT_EQ(ReadSafetensorsFile(folder_.Path("absent"), "query").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Refusal(""), AllOf(StartsWith(folder_.Path("bad.safetensors") + ": "), HasSubstr("it has 0 bytes")));
  EXPECT_THAT(Refusal("PK\x03\x04 is an archive"), HasSubstr("it is no safetensors file, or a truncated one"));
  EXPECT_THAT(ReadSafetensorsFile(folder_.Path(""), "query").status().message(), HasSubstr("not a regular file"));
}

TEST_F(SafetensorsFileTest, TruncatedAnywhere) {
  ASSERT_TRUE(WriteTwo().ok());
  const std::string contents = folder_.Contents("x.safetensors");
  for (size_t size = 0; size < contents.size(); ++size) Refusal(contents.substr(0, size));
  Refusal(contents + "x");
}

}  // namespace
}  // namespace attend::client
