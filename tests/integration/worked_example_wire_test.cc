// The worked example of docs/protocol.md through a real server, to four digits.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/server_test.h"

namespace attend::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

using WorkedExampleWireTest = ServerTest;

TEST_F(WorkedExampleWireTest, ToFourDigits) {
  const std::vector<float> query = {1, 0, 0.5F, 1};
  const std::vector<float> key = {1, 0, 0.8F, 1, 0, 1, 0.2F, 0, 0.2F, 0.2F, 0.4F, 0.1F};
  const std::vector<float> value = {0.9F, 0.1F, 0.7F, 0.8F, 0.1F, 0.9F, 0.2F, 0.1F, 0.3F, 0.3F, 0.5F, 0.2F};
  client::AttendRequest request;
  request.query = client::FloatTensorView({1, 1, 1, 4}, query);
  request.key = client::FloatTensorView({1, 1, 3, 4}, key);
  request.value = client::FloatTensorView({1, 1, 3, 4}, value);
  request.results.set_weights(true);
  request.results.set_logsumexp(true);
  const double before = server().Metric("attend_multiply_adds_total").value_or(-1);
  const auto result = client().Attend(request);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto near = [](float want) { return FloatNear(want, 0.00005F); };
  EXPECT_THAT(result->output.shape(), ElementsAre(1, 1, 1, 4));
  EXPECT_THAT(result->output.floats(), ElementsAre(near(0.6151), near(0.2941), near(0.5616), near(0.5337)));
  EXPECT_THAT(result->weights.floats(), ElementsAre(near(0.5871), near(0.1859), near(0.2270)));
  EXPECT_THAT(result->logsumexp.floats(), ElementsAre(near(1.7326)));  // ln(e^1.20 + e^0.05 + e^0.25)
  EXPECT_EQ(result->multiply_adds, 3 * (4 + 4));
  EXPECT_EQ(server().Metric("attend_multiply_adds_total").value_or(-1), before + 3 * (4 + 4));
  EXPECT_FALSE(result->request_id.empty());
}

TEST_F(WorkedExampleWireTest, ByTheDemoCommand) {
  const auto demo = RunProgram({.command = {ClientProgram(), "demo", "--address", server().grpc_address()}});
  ASSERT_TRUE(demo.ok()) << demo.status();
  EXPECT_EQ(demo->exit.code, 0) << demo->standard_error;
  for (const char* number :
       {"2.4000", "1.2000", "0.0500", "0.2500", "0.5871", "0.1859", "0.2270", "0.6151", "0.2941", "0.5616", "0.5337"}) {
    EXPECT_THAT(demo->standard_output, HasSubstr(number));
  }
}

}  // namespace
}  // namespace attend::testing
