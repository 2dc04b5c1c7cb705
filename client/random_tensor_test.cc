#include "client/random_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "client/element_rounding.h"

namespace attend::client {
namespace {

TEST(RandomTensor, IsNormal) {
  auto tensor = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {100, 1000}, 7);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const std::vector<float> elements = WidenElements(tensor->data_type, tensor->data);
  ASSERT_EQ(elements.size(), 100000u);
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  for (const float x : elements) {
    sum += x;
    squares += static_cast<double>(x) * x;
    beyond_two += std::abs(x) > 2;
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.02);
  EXPECT_NEAR(squares / 1e5, 1, 0.02);
  EXPECT_NEAR(beyond_two / 1e5, 0.0455, 0.003);
}

TEST(RandomTensor, TheSeedDecides) {
  auto first = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {4, 5}, 7);
  auto again = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {4, 5}, 7);
  auto other = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {4, 5}, 8);
  EXPECT_EQ(std::memcmp(first->data.data(), again->data.data(), first->data.size()), 0);
  EXPECT_NE(std::memcmp(first->data.data(), other->data.data(), first->data.size()), 0);
}

TEST(RandomTensor, NarrowTypesAreTheSameNumbersRounded) {
  const auto wide = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {64}, 3);
  const std::vector<float> elements = WidenElements(wide->data_type, wide->data);
  for (const v1::DataType type : {v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16}) {
    const auto narrow = MakeRandomTensor(type, {64}, 3);
    const TensorView rounded = RoundTensor(type, {64}, elements);
    ASSERT_EQ(narrow->data.size(), rounded.data.size());
    EXPECT_EQ(std::memcmp(narrow->data.data(), rounded.data.data(), rounded.data.size()), 0);
  }
}

TEST(RandomTensor, BadShapes) {
  EXPECT_EQ(MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {2, -1}, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {int64_t{1} << 40, int64_t{1} << 40}, 0).status().code(),
            absl::StatusCode::kResourceExhausted);
  auto empty = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {0, std::numeric_limits<int64_t>::max(), 8}, 0);
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->data.empty());
}

TEST(RandomTensor, CanBeInterrupted) {
  const std::vector<int64_t> shape = {1000, 1000};
  int looks = 0;
  const auto interrupted = MakeRandomTensor(v1::DATA_TYPE_FLOAT32, shape, 0, [&looks] { return ++looks > 3; });
  EXPECT_EQ(interrupted.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(looks, 4) << "not asked for every element";
  EXPECT_TRUE(MakeRandomTensor(v1::DATA_TYPE_FLOAT32, shape, 0, [] { return false; }).ok());
}

}  // namespace
}  // namespace attend::client
