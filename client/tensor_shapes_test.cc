#include "client/tensor_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attend::client {
namespace {

using ::testing::ElementsAre;

std::string Refusal(v1::Layout layout, const std::vector<int64_t>& query, const std::vector<int64_t>& key,
                    const std::vector<int64_t>& value) {
  const absl::Status status = MatchShapes(layout, {"q.npy", query}, {"k.npy", key}, {"v.npy", value}).status();
  return status.ok() ? "" : std::string(status.message());
}

TEST(TensorShapes, AxesOfBothLayouts) {
  for (const bool heads_first : {true, false}) {
    const v1::Layout layout = heads_first ? v1::LAYOUT_BHND : v1::LAYOUT_BNHD;
    auto axes = MatchShapes(layout, {"query", LayoutShape(layout, 2, 8, 5, 64)},
                            {"key", LayoutShape(layout, 2, 4, 7, 64)}, {"value", LayoutShape(layout, 2, 4, 7, 32)});
    ASSERT_TRUE(axes.ok()) << axes.status();
    EXPECT_THAT((std::vector<int64_t>{axes->batch, axes->query_heads, axes->kv_heads, axes->query_length,
                                      axes->key_length, axes->head_dim, axes->value_dim}),
                ElementsAre(2, 8, 4, 5, 7, 64, 32));
  }
  EXPECT_THAT(LayoutShape(v1::LAYOUT_BNHD, 2, 8, 5, 64), ElementsAre(2, 5, 8, 64));
}

TEST(TensorShapes, StridesOfBothLayouts) {
  const RowStrides bhnd = LayoutStrides(v1::LAYOUT_UNSPECIFIED, 8, 5, 64);
  EXPECT_EQ(bhnd.batch, 8 * 5 * 64);
  EXPECT_EQ(bhnd.head, 5 * 64);
  EXPECT_EQ(bhnd.row, 64);
  const RowStrides bnhd = LayoutStrides(v1::LAYOUT_BNHD, 8, 5, 64);
  EXPECT_EQ(bnhd.batch, 8 * 5 * 64);
  EXPECT_EQ(bnhd.head, 64);
  EXPECT_EQ(bnhd.row, 8 * 64);
}

TEST(TensorShapes, RaggedBatchesHaveThreeAxes) {
  auto axes = MatchShapes(v1::LAYOUT_THD, {"query", {5, 8, 64}}, {"key", {7, 4, 64}}, {"value", {7, 4, 32}});
  ASSERT_TRUE(axes.ok()) << axes.status();
  EXPECT_THAT((std::vector<int64_t>{axes->batch, axes->query_heads, axes->kv_heads, axes->query_length,
                                    axes->key_length, axes->head_dim, axes->value_dim}),
              ElementsAre(1, 8, 4, 5, 7, 64, 32));
  EXPECT_THAT(LayoutShape(v1::LAYOUT_THD, 1, 8, 5, 64), ElementsAre(5, 8, 64));
  const RowStrides strides = LayoutStrides(v1::LAYOUT_THD, 8, 5, 64);
  EXPECT_EQ(strides.batch, 0);
  EXPECT_EQ(strides.head, 64);
  EXPECT_EQ(strides.row, 8 * 64);
  EXPECT_EQ(Refusal(v1::LAYOUT_THD, {1, 5, 8, 64}, {7, 4, 64}, {7, 4, 64}),
            "q.npy: shape is [1, 5, 8, 64], must be [total length, heads, dim]: rank is 4, must be 3");
  EXPECT_EQ(Refusal(v1::LAYOUT_THD, {5, 8, 64}, {7, 4, 32}, {7, 4, 64}),
            "k.npy: shape is [7, 4, 32], must be [key_length, kv_heads, 64], to fit q.npy");
}

TEST(TensorShapes, MessagesNameTheTensorItsShapeAndWhatIsWanted) {
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {8, 5, 64}, {1, 8, 7, 64}, {1, 8, 7, 64}),
            "q.npy: shape is [8, 5, 64], must be [batch, heads, length, dim]: rank is 3, must be 4");
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {1, 8, 5, 64}, {1, 8, 7, 80}, {1, 8, 7, 64}),
            "k.npy: shape is [1, 8, 7, 80], must be [1, kv_heads, key_length, 64], to fit q.npy");
  EXPECT_EQ(Refusal(v1::LAYOUT_BNHD, {1, 5, 8, 64}, {2, 7, 8, 64}, {2, 7, 8, 64}),
            "k.npy: shape is [2, 7, 8, 64], must be [1, key_length, kv_heads, 64], to fit q.npy");
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {1, 8, 5, 64}, {1, 8, 7, 64}, {1, 8, 6, 64}),
            "v.npy: shape is [1, 8, 6, 64], must be [1, 8, 7, value_dim], to fit k.npy");
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {1, 8, 5, 64}, {1, 3, 7, 64}, {1, 3, 7, 64}),
            "k.npy: has 3 heads, must be a divisor of the 8 of q.npy");
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {1, 8, 5, 64}, {1, 0, 7, 64}, {1, 0, 7, 64}),
            "k.npy: has 0 heads, must be a divisor of the 8 of q.npy");
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {1, 0, 5, 64}, {1, 1, 7, 64}, {1, 1, 7, 64}),
            "q.npy: shape is [1, 0, 5, 64], must be [1, query_heads, query_length, head_dim] with at least one head");
  EXPECT_EQ(
      Refusal(v1::LAYOUT_BHND, {1, 8, 5, 0}, {1, 8, 7, 64}, {1, 8, 7, 64}),
      "q.npy: shape is [1, 8, 5, 0], must be [1, query_heads, query_length, head_dim] with a head_dim of at least "
      "1");
  EXPECT_EQ(Refusal(v1::LAYOUT_BHND, {0, 8, 0, 64}, {0, 8, 0, 64}, {0, 8, 0, 3}), "");
}

}  // namespace
}  // namespace attend::client
