#include "client/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "client/element_rounding.h"
#include "client/random_tensor.h"
#include "client/temporary_folder.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class TensorFileTest : public ::testing::Test {
 protected:
  // The tensor in a file named after its type.
  TensorPath Store(const TensorView& tensor, const std::string& extension = ".npy") {
    const std::string text = folder_.Path(std::string(DataTypeName(tensor.data_type)) + extension);
    const TensorInFile written = {.path = *ParseTensorPath(text, "query"), .tensor = tensor};
    auto file = PendingFile::Create(written.path.file);
    EXPECT_TRUE(file.ok() && WriteTensors({&written, 1}, *file).ok() && file->Commit().ok());
    return written.path;
  }

  static bool SameBytes(const TensorView& a, const TensorView& b) {
    return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
  }

  TemporaryFolder folder_;
};

TEST_F(TensorFileTest, EveryFloatTypeComesBack) {
  for (const char* extension : {".npy", ".npz", ".safetensors"}) {
    for (const v1::DataType type : {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16}) {
      const TensorView tensor = *MakeRandomTensor(type, {2, 3, 4}, 1);
      auto read = ReadTensorFile(Store(tensor, extension), type);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->data_type, type);
      EXPECT_THAT(read->shape, ElementsAre(2, 3, 4));
      EXPECT_TRUE(SameBytes(*read, tensor));
    }
  }
}

TEST_F(TensorFileTest, Float32IsRoundedToWhatIsWanted) {
  const TensorPath path = Store(*MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {5, 7}, 2));
  for (const v1::DataType type : {v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16}) {
    auto read = ReadTensorFile(path, type);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(SameBytes(*read, *MakeRandomTensor(type, {5, 7}, 2)));
  }
  EXPECT_EQ(ReadTensorFile(path)->data_type, v1::DATA_TYPE_FLOAT32) << "unless said otherwise, as the file";
}

TEST_F(TensorFileTest, OtherTypesAreRefusedByName) {
  const TensorPath half = Store(*MakeRandomTensor(v1::DATA_TYPE_FLOAT16, {5}, 3));
  EXPECT_THAT(ReadTensorFile(half, v1::DATA_TYPE_FLOAT32).status().message(),
              HasSubstr("f16.npy: holds f16, must be f32"));
  EXPECT_THAT(std::string(ReadTensorFile(half, v1::DATA_TYPE_BOOL).status().message()),
              EndsWith("holds f16, must be bool"));
  const TensorView brain = *MakeRandomTensor(v1::DATA_TYPE_BFLOAT16, {5}, 3);
  EXPECT_THAT(ReadTensorFile(Store(brain)).status().message(), HasSubstr("--element_type bf16"));
  EXPECT_THAT(ReadTensorFile(Store(brain, ".npz")).status().message(), HasSubstr("--element_type bf16"));
  EXPECT_EQ(ReadTensorFile(Store(brain, ".safetensors"))->data_type, v1::DATA_TYPE_BFLOAT16) << "which says so itself";
  EXPECT_THAT(ReadTensorFile(Store(brain, ".safetensors"), v1::DATA_TYPE_FLOAT16).status().message(),
              HasSubstr("bf16.safetensors:query: holds bf16, must be f16"));
}

TEST(TensorShapes, LiftAndDrop) {
  std::vector<int64_t> shape = {5, 7};
  auto missing = LiftToRank4("q.npy", shape);
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(*missing, 2);
  EXPECT_THAT(shape, ElementsAre(1, 1, 5, 7));
  EXPECT_THAT(DropLeadingAxes(shape, 2), ElementsAre(5, 7));
  EXPECT_THAT(DropLeadingAxes({1, 8, 5, 7}, 1), ElementsAre(8, 5, 7));
  EXPECT_THAT(DropLeadingAxes({1, 8, 5, 7}, 2), ElementsAre(8, 5, 7)) << "only axes of length 1";
  for (std::vector<int64_t> bad : std::vector<std::vector<int64_t>>{{}, {5}, {1, 1, 1, 1, 1}}) {
    EXPECT_THAT(LiftToRank4("q.npy", bad).status().message(), HasSubstr("must have 2, 3 or 4 axes"));
  }
}

}  // namespace
}  // namespace attend::client
