#include "client/rounding_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "client/random_tensor.h"

namespace attend::client {
namespace {

struct Case {
  ReferenceRow row;
  AxisLengths axes;
};

Case RandomRow(int64_t key_length, int64_t head_dim) {
  AttendRequest request;
  request.query = *MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {1, 1, 1, head_dim}, 1);
  request.key = *MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {1, 1, key_length, head_dim}, 2);
  request.value = *MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {1, 1, key_length, 1}, 3);
  const auto reference = *ReferenceAttention::Create(request);
  return {reference.Compute(0, 0, 0), reference.axes()};
}

// A bound is worth something if it is far below the numbers it bounds: for ordinary inputs an output of about
// 1 / sqrt(key_length).
TEST(RoundingBound, IsFarBelowOrdinaryOutputs) {
  const Case ordinary = RandomRow(2048, 64);
  const double magnitude = ordinary.row.output_magnitude[0];
  const double typical = 1 / std::sqrt(2048.0);
  const RoundingBound f32(ordinary.row, ordinary.axes, {});
  EXPECT_LT(f32.Output(typical, magnitude), 0.05 * typical);
  EXPECT_GT(f32.Output(typical, magnitude), 1e-7 * typical);
  const RoundingBound bf16(ordinary.row, ordinary.axes,
                           {.inputs = v1::DATA_TYPE_BFLOAT16, .output = v1::DATA_TYPE_BFLOAT16});
  EXPECT_LT(bf16.Output(typical, magnitude), 0.5 * typical);
  EXPECT_GT(bf16.Output(typical, magnitude), 0x1p-8 * typical);
}

TEST(RoundingBound, GrowsWithWhatRounds) {
  const Case row = RandomRow(256, 64);
  const RoundingBound f32(row.row, row.axes, {});
  const RoundingBound products(row.row, row.axes, {.bfloat16_products = true});
  const RoundingBound narrow(row.row, row.axes, {.inputs = v1::DATA_TYPE_FLOAT16, .output = v1::DATA_TYPE_FLOAT16});
  EXPECT_LT(f32.Output(0.1, 0.8), narrow.Output(0.1, 0.8));
  EXPECT_LT(narrow.Output(0.1, 0.8), products.Output(0.1, 0.8));
  EXPECT_LT(f32.Weight(0.01), products.Weight(0.01));
  EXPECT_LT(f32.Logsumexp(5), products.Logsumexp(5));
}

TEST(RoundingBound, AllowsNoWeightForExcludedKeys) {
  const Case row = RandomRow(256, 64);
  EXPECT_EQ(RoundingBound(row.row, row.axes, {}).Weight(0), 0);
}

}  // namespace
}  // namespace attend::client
