#include "client/tensor_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attend::client {
namespace {

using ::testing::HasSubstr;

struct Reading {
  const char* text;
  FileFormat format;
  const char* file;
  const char* name;
};

TEST(TensorPath, FilesAndNames) {
  const Reading readings[] = {
      {"q.npy", FileFormat::kNpy, "q.npy", ""},
      {"", FileFormat::kNpy, "", ""},
      {"dir:1/q.npy:x", FileFormat::kNpy, "dir:1/q.npy:x", ""},
      {"archive.npz.bak", FileFormat::kNpy, "archive.npz.bak", ""},
      {"x.npz/q.npy", FileFormat::kNpy, "x.npz/q.npy", ""},
      {"x.npz", FileFormat::kNpz, "x.npz", "query"},
      {"a/x.npz:k", FileFormat::kNpz, "a/x.npz", "k"},
      {"x.npz:k:1.npy", FileFormat::kNpz, "x.npz", "k:1.npy"},
      {"x.npz/y.npz", FileFormat::kNpz, "x.npz/y.npz", "query"},
      {"x.npz:y.safetensors", FileFormat::kNpz, "x.npz", "y.safetensors"},
      {"m.safetensors", FileFormat::kSafetensors, "m.safetensors", "query"},
      {"m.safetensors:y.npz", FileFormat::kSafetensors, "m.safetensors", "y.npz"},
      {"m.safetensors:layers.0.q µ", FileFormat::kSafetensors, "m.safetensors", "layers.0.q µ"},
      {"x.npz:__metadata__", FileFormat::kNpz, "x.npz", "__metadata__"},
  };
  for (const Reading& reading : readings) {
    const auto path = ParseTensorPath(reading.text, "query");
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(path->format, reading.format) << reading.text;
    EXPECT_EQ(path->file, reading.file);
    EXPECT_EQ(path->name, reading.name);
  }
}

TEST(TensorPath, TextIsWhatWasSaid) {
  EXPECT_EQ(ParseTensorPath("q.npy", "query")->Text(), "q.npy");
  EXPECT_EQ(ParseTensorPath("x.npz", "query")->Text(), "x.npz:query");
}

TEST(TensorPath, NamesThatCannotBe) {
  EXPECT_THAT(ParseTensorPath("x.npz:", "query").status().message(), HasSubstr("say x.npz:NAME"));
  EXPECT_THAT(ParseTensorPath("x.npz", "").status().message(), HasSubstr("say x.npz:NAME"));
  EXPECT_THAT(ParseTensorPath("x.npz:\xff", "query").status().message(), HasSubstr("'\\xff' is not UTF-8"));
  for (const char* name : {"a\nb", "\x1b[31m", "tab\t", "\x7f"}) {
    EXPECT_THAT(ParseTensorPath(std::string("x.npz:") + name, "query").status().message(),
                HasSubstr("has control characters, which no npz file can hold"));
    EXPECT_TRUE(ParseTensorPath(std::string("x.safetensors:") + name, "query").ok()) << "JSON escapes them";
  }
  EXPECT_TRUE(ParseTensorPath("x.npz:" + std::string(65531, 'n'), "query").ok());
  EXPECT_THAT(ParseTensorPath("x.npz:" + std::string(65532, 'n'), "query").status().message(),
              HasSubstr("has 65532 bytes, must have at most 65531"));
  EXPECT_THAT(ParseTensorPath("m.safetensors:__metadata__", "query").status().message(), HasSubstr("metadata"));
}

}  // namespace
}  // namespace attend::client
