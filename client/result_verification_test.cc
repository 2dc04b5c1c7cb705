#include "client/result_verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "client/element_rounding.h"
#include "client/random_tensor.h"
#include "client/reference_attention.h"

namespace attend::client {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Tensor ToTensor(v1::DataType type, const std::vector<int64_t>& shape, const std::vector<float>& elements) {
  const TensorView view = RoundTensor(type, shape, elements);
  std::shared_ptr<std::byte[]> data(new std::byte[view.data.size()]);
  if (!view.data.empty()) std::memcpy(data.get(), view.data.data(), view.data.size());
  return Tensor(type, shape, data, view.data.size());
}

AttendRequest RandomRequest(v1::DataType type, int64_t query_length, int64_t key_length, int64_t head_dim) {
  AttendRequest request;
  request.query = *MakeRandomTensor(type, {2, 4, query_length, head_dim}, 1);
  request.key = *MakeRandomTensor(type, {2, 2, key_length, head_dim}, 2);
  request.value = *MakeRandomTensor(type, {2, 2, key_length, 5}, 3);
  request.results.set_weights(true);
  request.results.set_logsumexp(true);
  return request;
}

// The results as a service would round them: scores in f32, weights in the inputs' type before the second product.
struct Answer {
  std::vector<float> output;
  std::vector<float> weights;
  std::vector<float> logsumexp;
};

Answer ComputeAnswer(const AttendRequest& request) {
  const auto reference = *ReferenceAttention::Create(request);
  const AxisLengths axes = reference.axes();
  const v1::DataType type = request.query.data_type;
  Answer answer;
  for (int64_t row = 0; row < axes.batch * axes.query_heads * axes.query_length; ++row) {
    const ReferenceRow exact = reference.Compute(row / axes.query_length / axes.query_heads,
                                                 row / axes.query_length % axes.query_heads, row % axes.query_length);
    for (const double weight : exact.weights) answer.weights.push_back(static_cast<float>(weight));
    for (const double element : exact.output) {
      const TensorView rounded = RoundTensor(type, {1}, std::vector<float>{static_cast<float>(element)});
      answer.output.push_back(WidenElements(type, rounded.data)[0]);
    }
    answer.logsumexp.push_back(static_cast<float>(exact.logsumexp));
  }
  return answer;
}

AttendResult ToResult(const AttendRequest& request, const Answer& answer) {
  const auto axes = ReferenceAttention::Create(request)->axes();
  AttendResult result;
  result.output = ToTensor(request.query.data_type, {axes.batch, axes.query_heads, axes.query_length, axes.value_dim},
                           answer.output);
  result.weights = ToTensor(v1::DATA_TYPE_FLOAT32, {axes.batch, axes.query_heads, axes.query_length, axes.key_length},
                            answer.weights);
  result.logsumexp =
      ToTensor(v1::DATA_TYPE_FLOAT32, {axes.batch, axes.query_heads, axes.query_length}, answer.logsumexp);
  return result;
}

TEST(ResultVerification, GoodAnswersPass) {
  for (const v1::DataType type : {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_BFLOAT16, v1::DATA_TYPE_FLOAT16}) {
    AttendRequest request = RandomRequest(type, 3, 17, 8);
    request.options.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
    request.options.add_key_lengths(0);
    request.options.add_key_lengths(2);
    const AttendResult result = ToResult(request, ComputeAnswer(request));
    auto verification = VerifyResult(request, result, {.rows = 0});
    ASSERT_TRUE(verification.ok()) << verification.status();
    EXPECT_TRUE(verification->passed()) << verification->Text();
    EXPECT_EQ(verification->rows, 24);
    EXPECT_EQ(verification->total_rows, 24);
    EXPECT_THAT(verification->worst, SizeIs(3));
    EXPECT_THAT(verification->Text(),
                HasSubstr("24 of 24 rows, nothing beyond rounding; closest to its bound: output["));
  }
}

// One of each kind of mistake that a service could make.
TEST(ResultVerification, WrongAnswersFail) {
  AttendRequest request = RandomRequest(v1::DATA_TYPE_FLOAT32, 3, 17, 8);
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
  const Answer good = ComputeAnswer(request);
  const auto fails = [&request](const Answer& answer, const char* named) {
    auto verification = VerifyResult(request, ToResult(request, answer), {.rows = 0});
    ASSERT_TRUE(verification.ok()) << verification.status();
    EXPECT_FALSE(verification->passed()) << named;
    EXPECT_THAT(verification->Text(), HasSubstr(named));
  };
  Answer bad = good;
  bad.output[7] += 1e-4f;
  fails(bad, "output[0, 0, 1, 2] is");
  bad = good;
  std::swap_ranges(bad.output.begin(), bad.output.begin() + 5, bad.output.begin() + 20);
  fails(bad, "output[0, ");
  bad = good;
  bad.output[0] = std::numeric_limits<float>::quiet_NaN();
  fails(bad, "output[0, 0, 0, 0] is nan");
  bad = good;
  bad.weights[1] = 1e-30f;  // the first query sees the first key alone
  fails(bad, "weights[0, 0, 0, 1] is 1e-30, must be 0");
  bad = good;
  bad.logsumexp[23] *= 1.0001f;
  fails(bad, "logsumexp[1, 3, 2]");
}

TEST(ResultVerification, EmptyRowsAreExactlyZero) {
  AttendRequest request = RandomRequest(v1::DATA_TYPE_FLOAT32, 1, 4, 8);
  request.options.add_key_lengths(0);
  request.options.add_key_lengths(4);
  Answer answer = ComputeAnswer(request);
  EXPECT_TRUE(VerifyResult(request, ToResult(request, answer), {.rows = 0})->passed());
  answer.output[0] = 1e-40f;
  EXPECT_FALSE(VerifyResult(request, ToResult(request, answer), {.rows = 0})->passed());
}

TEST(ResultVerification, ASampleHasFirstAndLastRow) {
  const AttendRequest request = RandomRequest(v1::DATA_TYPE_FLOAT32, 50, 4, 8);
  Answer answer = ComputeAnswer(request);
  auto verification = VerifyResult(request, ToResult(request, answer), {.rows = 10, .seed = 5});
  ASSERT_TRUE(verification.ok());
  EXPECT_EQ(verification->rows, 10);
  EXPECT_EQ(verification->total_rows, 400);
  EXPECT_TRUE(verification->passed()) << verification->Text();
  answer.output.back() += 1;
  EXPECT_FALSE(VerifyResult(request, ToResult(request, answer), {.rows = 10, .seed = 5})->passed());
}

TEST(ResultVerification, WrongShapesAndTypes) {
  const AttendRequest request = RandomRequest(v1::DATA_TYPE_FLOAT32, 3, 4, 8);
  AttendResult result;
  result.output = ToTensor(v1::DATA_TYPE_FLOAT32, {2, 4, 5, 3}, std::vector<float>(120));
  absl::Status status = VerifyResult(request, result).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("output is f32 [2, 4, 5, 3], must be f32 [2, 4, 3, 5]"));
  result.output = ToTensor(v1::DATA_TYPE_FLOAT16, {2, 4, 3, 5}, std::vector<float>(120));
  EXPECT_THAT(VerifyResult(request, result).status().message(), HasSubstr("output is f16"));
}

// The rows and the kinds of result that a request may pick: rows 2 and 0 of three, scores, weights for each head or as
// their mean.
struct Matrices {
  std::vector<float> weights;
  std::vector<float> averages;
  std::vector<float> scores;
};

Matrices ComputeMatrices(const AttendRequest& request) {
  const auto reference = *ReferenceAttention::Create(request);
  const AxisLengths axes = reference.axes();
  const auto per_head = static_cast<size_t>(2 * axes.key_length);
  Matrices matrices;
  for (int64_t head = 0; head < axes.batch * axes.query_heads; ++head) {
    for (const int64_t query : {2, 0}) {
      const ReferenceRow row = reference.Compute(head / axes.query_heads, head % axes.query_heads, query);
      matrices.weights.insert(matrices.weights.end(), row.weights.begin(), row.weights.end());
      matrices.scores.insert(matrices.scores.end(), row.scores.begin(), row.scores.end());
    }
  }
  matrices.averages.resize(static_cast<size_t>(axes.batch) * per_head);
  for (size_t i = 0; i < matrices.weights.size(); ++i) {
    const size_t batch = i / per_head / static_cast<size_t>(axes.query_heads);
    matrices.averages[batch * per_head + i % per_head] += matrices.weights[i] / static_cast<float>(axes.query_heads);
  }
  return matrices;
}

TEST(ResultVerification, SomeRowsAveragesAndScores) {
  for (const v1::ScoreStage stage : {v1::SCORE_STAGE_SCALED, v1::SCORE_STAGE_SOFTCAPPED, v1::SCORE_STAGE_MASKED}) {
    AttendRequest request = RandomRequest(v1::DATA_TYPE_FLOAT32, 3, 4, 8);
    request.options.set_softcap(0.5);
    request.options.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
    request.results.set_scores(stage);
    for (const int64_t row : {2, 0}) request.results.add_weight_query_rows(row);
    const Matrices good = ComputeMatrices(request);
    const auto verify = [&request](const Matrices& matrices) {
      AttendResult result;
      result.scores = ToTensor(v1::DATA_TYPE_FLOAT32, {2, 4, 2, 4}, matrices.scores);
      result.weights = request.results.average_weights_over_heads()
                           ? ToTensor(v1::DATA_TYPE_FLOAT32, {2, 2, 4}, matrices.averages)
                           : ToTensor(v1::DATA_TYPE_FLOAT32, {2, 4, 2, 4}, matrices.weights);
      auto verification = VerifyResult(request, result, {.rows = 1});
      EXPECT_TRUE(verification.ok()) << verification.status();
      return *verification;
    };
    EXPECT_TRUE(verify(good).passed()) << verify(good).Text();
    Matrices bad = good;
    bad.scores.back() = 0.25F;
    EXPECT_THAT(verify(bad).Text(), HasSubstr("scores[1, 3, 1, 3] is")) << stage;
    bad = good;
    bad.weights.front() += 1e-4F;
    EXPECT_THAT(verify(bad).Text(), HasSubstr("weights[0, 0, 0, 0] is"));
    request.results.set_average_weights_over_heads(true);
    EXPECT_TRUE(verify(good).passed()) << verify(good).Text();
    bad = good;
    bad.averages[1] += 1e-4F;
    EXPECT_THAT(verify(bad).Text(), HasSubstr("weights[0, 0, 1] is"));
  }
}

TEST(ResultVerification, RaggedBatches) {
  AttendRequest request;
  request.query = *MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {3, 4, 8}, 1);
  request.key = *MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {7, 2, 8}, 2);
  request.value = *MakeRandomTensor(v1::DATA_TYPE_FLOAT32, {7, 2, 5}, 3);
  request.options.set_layout(v1::LAYOUT_THD);
  for (const int64_t start : {0, 1, 1, 3}) request.options.add_query_starts(start);
  for (const int64_t start : {0, 2, 4, 7}) request.options.add_key_starts(start);
  request.options.set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
  const auto reference = *ReferenceAttention::Create(request);
  std::vector<float> output(3 * 4 * 5);
  std::vector<float> logsumexp;
  for (int64_t row = 0; row < 12; ++row) {
    const RowPlace at = reference.Place(row);
    const ReferenceRow exact = reference.Compute(at.batch, at.head, at.query);
    const int64_t packed = row % 3;
    for (int64_t d = 0; d < 5; ++d) output[(packed * 4 + at.head) * 5 + d] = static_cast<float>(exact.output[d]);
    logsumexp.push_back(static_cast<float>(exact.logsumexp));
  }
  AttendResult result;
  result.output = ToTensor(v1::DATA_TYPE_FLOAT32, {3, 4, 5}, output);
  result.logsumexp = ToTensor(v1::DATA_TYPE_FLOAT32, {4, 3}, logsumexp);
  EXPECT_TRUE(VerifyResult(request, result)->passed()) << VerifyResult(request, result)->Text();
  output[(2 * 4 + 3) * 5] += 1e-3F;
  result.output = ToTensor(v1::DATA_TYPE_FLOAT32, {3, 4, 5}, output);
  EXPECT_THAT(VerifyResult(request, result)->Text(), HasSubstr("output[2, 3, 0] is"));
}

TEST(ResultVerification, RowsThatDoNotExistAreRefused) {
  AttendRequest request = RandomRequest(v1::DATA_TYPE_FLOAT32, 3, 4, 8);
  request.results.add_weight_query_rows(3);
  EXPECT_EQ(VerifyResult(request, AttendResult{}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attend::client
