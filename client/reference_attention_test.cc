#include "client/reference_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "client/element_rounding.h"

namespace attend::client {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TensorView Floats(std::vector<int64_t> shape, const std::vector<float>& elements) {
  return RoundTensor(v1::DATA_TYPE_FLOAT32, std::move(shape), elements);
}

TensorView Bools(std::vector<int64_t> shape, const std::vector<char>& elements) {
  std::shared_ptr<std::byte[]> data(new std::byte[elements.size()]);
  std::memcpy(data.get(), elements.data(), elements.size());
  const std::span<const std::byte> view(data.get(), elements.size());
  return {.data_type = v1::DATA_TYPE_BOOL, .shape = std::move(shape), .data = view, .owner = std::move(data)};
}

// The worked example: three tokens, four dimensions.
AttendRequest WorkedExample() {
  AttendRequest request;
  request.query = Floats({1, 1, 1, 4}, {1, 0, 0.5, 1});
  request.key = Floats({1, 1, 3, 4}, {1, 0, 0.8, 1, 0, 1, 0.2, 0, 0.2, 0.2, 0.4, 0.1});
  request.value = Floats({1, 1, 3, 4}, {0.9, 0.1, 0.7, 0.8, 0.1, 0.9, 0.2, 0.1, 0.3, 0.3, 0.5, 0.2});
  return request;
}

// Queries and keys of one dimension whose scores are ln(2) * query * key, and values 1, 2, 4, ... that name their keys:
// with query 0 all weights are equal.
AttendRequest Counting(int64_t query_length, int64_t key_length, float query = 0) {
  AttendRequest request;
  std::vector<float> keys;
  std::vector<float> values;
  for (int64_t j = 0; j < key_length; ++j) {
    keys.push_back(static_cast<float>(j));
    values.push_back(std::ldexp(1.0f, static_cast<int>(j)));
  }
  request.query = Floats({1, 1, query_length, 1}, std::vector<float>(static_cast<size_t>(query_length), query));
  request.key = Floats({1, 1, key_length, 1}, keys);
  request.value = Floats({1, 1, key_length, 1}, values);
  return request;
}

ReferenceRow Row(const AttendRequest& request, int64_t i = 0, int64_t h = 0, int64_t b = 0) {
  auto reference = ReferenceAttention::Create(request);
  EXPECT_TRUE(reference.ok()) << reference.status();
  return reference.ok() ? reference->Compute(b, h, i) : ReferenceRow{};
}

TEST(ReferenceAttention, TheWorkedExample) {
  const ReferenceRow row = Row(WorkedExample());
  EXPECT_THAT(row.weights, ElementsAre(DoubleNear(0.5871, 5e-5), DoubleNear(0.1859, 5e-5), DoubleNear(0.2270, 5e-5)));
  EXPECT_THAT(row.output, ElementsAre(DoubleNear(0.6151, 5e-5), DoubleNear(0.2941, 5e-5), DoubleNear(0.5616, 5e-5),
                                      DoubleNear(0.5337, 5e-5)));
  EXPECT_NEAR(row.logsumexp, std::log(std::exp(1.2) + std::exp(0.05) + std::exp(0.25)), 1e-7);
  EXPECT_NEAR(row.product_magnitude, 1.2, 1e-7);
  EXPECT_NEAR(row.score_magnitude, 1.2, 1e-7);
  EXPECT_EQ(row.visible_keys, 3);
}

TEST(ReferenceAttention, ScaleAndSoftcap) {
  AttendRequest request = WorkedExample();
  request.options.set_scale(-2);
  EXPECT_NEAR(Row(request).logsumexp, std::log(std::exp(-4.8) + std::exp(-0.2) + std::exp(-1.0)), 1e-6);
  request.options.set_scale(0);
  EXPECT_THAT(Row(request).weights, Each(DoubleNear(1.0 / 3, 1e-12)));
  request.options.set_scale(0.5);
  request.options.set_softcap(0.5);
  const double capped[] = {0.5 * std::tanh(2.4), 0.5 * std::tanh(0.1), 0.5 * std::tanh(0.5)};
  EXPECT_NEAR(Row(request).logsumexp, std::log(std::exp(capped[0]) + std::exp(capped[1]) + std::exp(capped[2])), 1e-7);
}

TEST(ReferenceAttention, CausalCorners) {
  AttendRequest request = Counting(2, 4);
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
  EXPECT_THAT(Row(request, 0).weights, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(Row(request, 1).weights, ElementsAre(0.5, 0.5, 0, 0));
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
  EXPECT_NEAR(Row(request, 0).output[0], (1 + 2 + 4) / 3.0, 1e-12);
  EXPECT_THAT(Row(request, 1).weights, ElementsAre(0.25, 0.25, 0.25, 0.25));
  request = Counting(4, 2);
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
  EXPECT_THAT(Row(request, 1).weights, ElementsAre(0, 0));
  EXPECT_THAT(Row(request, 2).weights, ElementsAre(1, 0));
}

TEST(ReferenceAttention, KeyLengthsOffsetsAndWindows) {
  AttendRequest request = Counting(2, 4);
  request.options.add_key_lengths(3);
  EXPECT_THAT(Row(request).weights, ElementsAre(1 / 3.0, 1 / 3.0, 1 / 3.0, 0));
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
  EXPECT_THAT(Row(request).weights, ElementsAre(0.5, 0.5, 0, 0));

  request = Counting(2, 4);
  request.options.set_window_left(1);
  request.options.set_window_right(0);
  EXPECT_THAT(Row(request, 1).weights, ElementsAre(0.5, 0.5, 0, 0));
  request.options.add_query_offset(2);
  EXPECT_THAT(Row(request, 1).weights, ElementsAre(0, 0, 0.5, 0.5));
  request.options.set_query_offset(0, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Row(request, 1).visible_keys, 0);
  request.options.set_window_left(-1);
  EXPECT_EQ(Row(request, 1).visible_keys, 4);
}

TEST(ReferenceAttention, MaskAndBiasBroadcastFromTheRight) {
  AttendRequest request = Counting(2, 3);
  request.mask = Bools({2, 3}, {1, 0, 1, 0, 0, 1});
  EXPECT_THAT(Row(request, 0).weights, ElementsAre(0.5, 0, 0.5));
  EXPECT_THAT(Row(request, 1).weights, ElementsAre(0, 0, 1));
  request.bias = Floats({1, 1, 1, 3}, {static_cast<float>(std::log(3.0)), 0, 0});
  EXPECT_THAT(Row(request, 0).weights, ElementsAre(DoubleNear(0.75, 1e-7), 0, DoubleNear(0.25, 1e-7)));
  request.bias = Floats({1, 3}, {-kInf, 0, 0});
  EXPECT_THAT(Row(request, 0).weights, ElementsAre(0, 0, 1));
  request.bias = Floats({1, 3}, {-3.4e38f, 0, -3.4e38f});
  EXPECT_THAT(Row(request, 0).weights, ElementsAre(0.5, 0, 0.5)) << "large numbers are numbers";
}

TEST(ReferenceAttention, AlibiAndSinks) {
  AttendRequest request = Counting(1, 3);
  request.options.add_alibi_slopes(static_cast<float>(std::log(2.0)));
  EXPECT_THAT(Row(request).weights,
              ElementsAre(DoubleNear(4 / 7.0, 1e-7), DoubleNear(2 / 7.0, 1e-7), DoubleNear(1 / 7.0, 1e-7)));
  request = Counting(1, 3);
  request.options.add_sinks(0);
  EXPECT_THAT(Row(request).weights, Each(DoubleNear(0.25, 1e-12)));
  EXPECT_NEAR(Row(request).logsumexp, std::log(4.0), 1e-12);
  request.options.add_key_lengths(0);
  EXPECT_EQ(Row(request).logsumexp, 0);
}

TEST(ReferenceAttention, HeadsShareKeysInGroupsInBothLayouts) {
  for (const v1::Layout layout : {v1::LAYOUT_BHND, v1::LAYOUT_BNHD}) {
    AttendRequest request;
    request.options.set_layout(layout);
    request.query = Floats(LayoutShape(layout, 2, 4, 1, 1), std::vector<float>(8, 0));
    request.key = Floats(LayoutShape(layout, 2, 2, 1, 1), {1, 2, 3, 4});
    request.value = Floats(LayoutShape(layout, 2, 2, 1, 1), {1, 2, 3, 4});
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t h = 0; h < 4; ++h) {
        const int64_t kv_head = h / 2;
        EXPECT_EQ(Row(request, 0, h, b).output[0], static_cast<double>(1 + 2 * b + kv_head));
      }
    }
  }
  // Two keys in BNHD: heads alternate in memory.
  AttendRequest request;
  request.options.set_layout(v1::LAYOUT_BNHD);
  request.query = Floats({1, 1, 2, 1}, {0, 0});
  request.key = Floats({1, 2, 2, 1}, {0, 0, 0, 0});
  request.value = Floats({1, 2, 2, 1}, {1, 10, 3, 30});
  EXPECT_EQ(Row(request, 0, 0).output[0], 2);
  EXPECT_EQ(Row(request, 0, 1).output[0], 20);
}

// Queries of 0, keys of 0 and values 1, 2, 4, ... in one head, as sequences.
AttendRequest Ragged(const std::vector<int64_t>& query_starts, const std::vector<int64_t>& key_starts) {
  AttendRequest request = Counting(query_starts.back(), key_starts.back());
  for (TensorView* tensor : {&request.query, &request.key, &request.value}) tensor->shape = {tensor->shape[2], 1, 1};
  request.options.set_layout(v1::LAYOUT_THD);
  request.options.mutable_query_starts()->Assign(query_starts.begin(), query_starts.end());
  request.options.mutable_key_starts()->Assign(key_starts.begin(), key_starts.end());
  return request;
}

TEST(ReferenceAttention, SequencesDoNotSeeEachOther) {
  AttendRequest request = Ragged({0, 1, 1, 3}, {0, 2, 3, 5});
  EXPECT_EQ(Row(request, 0, 0, 0).output[0], 1.5);
  EXPECT_EQ(Row(request, 1, 0, 2).output[0], 12);
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
  EXPECT_EQ(Row(request, 0, 0, 0).output[0], 1);
  EXPECT_EQ(Row(request, 0, 0, 2).output[0], 8);
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
  EXPECT_EQ(Row(request, 0, 0, 0).output[0], 1.5);
  const auto reference = ReferenceAttention::Create(request);
  EXPECT_EQ(reference->total_rows(), 3);
  EXPECT_EQ(reference->Place(0).batch, 0);
  EXPECT_EQ(reference->Place(1).batch, 2);
  EXPECT_EQ(reference->Place(1).query, 0);
  EXPECT_EQ(reference->Place(2).query, 1);
}

TEST(ReferenceAttention, ScoresAtEachStage) {
  AttendRequest request = WorkedExample();
  request.options.set_softcap(0.5);
  request.bias = Floats({1, 3}, {1, 0, 0});
  request.options.add_key_lengths(2);
  request.results.set_scores(v1::SCORE_STAGE_SCALED);
  EXPECT_THAT(Row(request).scores, ElementsAre(DoubleNear(1.2, 1e-6), DoubleNear(0.05, 1e-6), DoubleNear(0.25, 1e-6)));
  request.results.set_scores(v1::SCORE_STAGE_SOFTCAPPED);
  EXPECT_THAT(Row(request).scores,
              ElementsAre(DoubleNear(0.5 * std::tanh(2.4), 1e-6), DoubleNear(0.5 * std::tanh(0.1), 1e-6),
                          DoubleNear(0.5 * std::tanh(0.5), 1e-6)));
  request.results.set_scores(v1::SCORE_STAGE_MASKED);
  EXPECT_THAT(Row(request).scores,
              ElementsAre(DoubleNear(1 + 0.5 * std::tanh(2.4), 1e-6), DoubleNear(0.5 * std::tanh(0.1), 1e-6), -kInf));
}

// What is visible and has no finite score is no number, whatever the sink.
TEST(ReferenceAttention, ASinkDoesNotHideScoresThatAreNoNumbers) {
  AttendRequest request = Counting(1, 2, 3e38F);
  request.key = Floats({1, 1, 2, 1}, {-3e38F, -3e38F});
  request.options.add_sinks(1);
  EXPECT_TRUE(std::isnan(Row(request).output[0]));
  EXPECT_TRUE(std::isnan(Row(request).logsumexp));
}

TEST(ReferenceAttention, NoVisibleKeyIsZero) {
  AttendRequest request = Counting(1, 2);
  request.options.add_key_lengths(0);
  const ReferenceRow row = Row(request);
  EXPECT_THAT(row.output, ElementsAre(0));
  EXPECT_THAT(row.weights, ElementsAre(0, 0));
  EXPECT_EQ(row.logsumexp, -std::numeric_limits<double>::infinity());
}

TEST(ReferenceAttention, NotNumbers) {
  AttendRequest request = Counting(1, 3);
  request.key = Floats({1, 1, 3, 1}, {0, 0, kNan});
  request.value = Floats({1, 1, 3, 1}, {1, 3, kNan});
  request.options.add_key_lengths(2);
  EXPECT_THAT(Row(request).output, ElementsAre(2)) << "unseen NaN";
  request.options.clear_key_lengths();
  EXPECT_TRUE(std::isnan(Row(request).output[0]));
  EXPECT_TRUE(std::isnan(Row(request).logsumexp));
  request = Counting(1, 2, 3e38f);
  request.key = Floats({1, 1, 2, 1}, {3e38f, 1});
  EXPECT_TRUE(std::isnan(Row(request).output[0])) << "a product beyond f32 is infinite";
}

TEST(ReferenceAttention, NarrowTypesAreWidened) {
  AttendRequest request = Counting(1, 3);
  const std::vector<float> values = {1, 2, 4};
  for (const v1::DataType type : {v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16}) {
    request.value = RoundTensor(type, {1, 1, 3, 1}, values);
    EXPECT_NEAR(Row(request).output[0], 7 / 3.0, 1e-12);
  }
}

TEST(ReferenceAttention, RefusesWhatDoesNotFit) {
  const auto refusal = [](const AttendRequest& request) {
    return std::string(ReferenceAttention::Create(request).status().message());
  };
  AttendRequest request = Counting(1, 3);
  request.key.shape[2] = 4;
  request.value.shape[2] = 4;
  EXPECT_THAT(refusal(request), HasSubstr("key: has 12 bytes"));
  request = Counting(1, 3);
  request.options.add_key_lengths(4);
  EXPECT_THAT(refusal(request), HasSubstr("must be in [0, 3]"));
  request.options.add_key_lengths(1);
  EXPECT_THAT(refusal(request), HasSubstr("has 2 numbers, must be 1"));
  request = Counting(1, 3);
  request.mask = Bools({3, 3}, std::vector<char>(9, 1));
  EXPECT_THAT(refusal(request), HasSubstr("broadcastable to [1, 1, 1, 3]"));
  request = Counting(1, 3);
  request.options.add_query_starts(0);
  EXPECT_THAT(refusal(request), HasSubstr("layout THD alone"));
  request = Ragged({0, 1, 3}, {0, 2, 3});
  request.options.set_key_starts(1, 4);
  EXPECT_THAT(refusal(request), HasSubstr("key_starts: must be 3 numbers from 0 to 3"));
}

}  // namespace
}  // namespace attend::client
