#include "client/worked_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace attend::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

auto Near(double value) { return DoubleNear(value, 5e-5); }  // to 4 digits

Tensor FloatTensor(std::vector<int64_t> shape, const std::vector<float>& elements) {
  const auto data = std::make_shared<std::byte[]>(elements.size() * sizeof(float));
  std::memcpy(data.get(), elements.data(), elements.size() * sizeof(float));
  return Tensor(attend::v1::DATA_TYPE_FLOAT32, std::move(shape), data, elements.size() * sizeof(float));
}

AttendResult RightResult() {
  const WorkedSteps steps = Work({});
  AttendResult result;
  result.weights = FloatTensor({1, 1, 1, 3}, {steps.weights.begin(), steps.weights.end()});
  result.output = FloatTensor({1, 1, 1, 4}, {steps.output.begin(), steps.output.end()});
  return result;
}

TEST(WorkedExample, HasTheKnownSteps) {
  const WorkedSteps steps = Work({});
  EXPECT_THAT(steps.dot_products, ElementsAre(Near(2.4), Near(0.1), Near(0.5)));
  EXPECT_THAT(steps.scores, ElementsAre(Near(1.2), Near(0.05), Near(0.25)));
  EXPECT_THAT(steps.weights, ElementsAre(Near(0.5871), Near(0.1859), Near(0.2270)));
  EXPECT_THAT(steps.output, ElementsAre(Near(0.6151), Near(0.2941), Near(0.5616), Near(0.5337)));
}

TEST(WorkedExample, IsARequestForOutputAndWeights) {
  const WorkedExample example;
  const AttendRequest request = ToRequest(example);
  EXPECT_THAT(request.query.shape, ElementsAre(1, 1, 1, 4));
  EXPECT_THAT(request.key.shape, ElementsAre(1, 1, 3, 4));
  EXPECT_EQ(request.query.data.size(), 16U);
  EXPECT_EQ(request.key.data.size(), 48U);
  EXPECT_EQ(request.value.data.size(), 48U);
  EXPECT_EQ(static_cast<const void*>(request.value.data.data() + 44), &example.value[2][3]);
  EXPECT_TRUE(request.results.weights());
}

TEST(WorkedExample, AcceptsTheRightAnswer) {
  const auto answer = Compare(Work({}), RightResult());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->weights, ElementsAre(Near(0.5871), Near(0.1859), Near(0.2270)));
  EXPECT_NEAR(answer->weight_sum, 1, 1e-6);
  EXPECT_LT(answer->largest_difference, 1e-6);
}

TEST(WorkedExample, RefusesAnswersThatDiffer) {
  const std::vector<std::function<void(AttendResult&)>> spoilers = {
      [](AttendResult& result) { result.output = Tensor(); },
      [](AttendResult& result) { result.weights = FloatTensor({1}, {1}); },
      [](AttendResult& result) {
        result.weights = FloatTensor({1, 1, 1, 3}, {0.5872F, 0.1859F, 0.2270F});
      },
      [](AttendResult& result) {
        result.output = FloatTensor({1, 1, 1, 4}, {NAN, 0.2941F, 0.5616F, 0.5337F});
      }};
  for (const auto& spoil : spoilers) {
    AttendResult result = RightResult();
    spoil(result);
    const absl::Status status = Compare(Work({}), result).status();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
  }
}

}  // namespace
}  // namespace attend::client
