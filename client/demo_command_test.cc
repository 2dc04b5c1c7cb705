// attend demo against a server of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/command_line_run.h"
#include "client/fake_server.h"
#include "client/worked_example.h"

namespace attend::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

template <size_t kSize>
void SetFloats(const std::array<double, kSize>& elements, attend::v1::Tensor& tensor) {
  tensor.set_data_type(attend::v1::DATA_TYPE_FLOAT32);
  tensor.add_shape(kSize);
  for (const double element : elements) {
    const float rounded = static_cast<float>(element);
    tensor.mutable_data()->append(reinterpret_cast<const char*>(&rounded), sizeof(rounded));
  }
}

// Answers every call with these weights and the right output.
FakeServer::Handler AnswerWithWeights(const TokenRow<double>& weights) {
  return [weights](const FakeCall&) {
    attend::v1::AttendResponse response;
    SetFloats(weights, *response.mutable_weights());
    SetFloats(Work({}).output, *response.mutable_output());
    return AnswerWith(response);
  };
}

TEST(DemoCommand, ShowsEveryStepToFourDigits) {
  FakeServer server(AnswerWithWeights(Work({}).weights));
  const CommandLineRun run = RunCommandLine(AddDemoCommand, {"demo", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  for (const char* line :
       {"server .* = +2\\.4000\n", "request .* = +0\\.1000\n", "it .* = +0\\.5000\n",   // dot products
        "server .* = +1\\.2000\n", "request .* = +0\\.0500\n", "it .* = +0\\.2500\n",   // scores
        "server +0\\.5871 ", "request +0\\.1859 ", "it +0\\.2270 ", "sum +1\\.0000\n",  // weights
        "machine +message +subject +capacity\n", "output +0\\.6151 +0\\.2941 +0\\.5616 +0\\.5337\n"}) {
    EXPECT_THAT(run.output, ContainsRegex(line));
  }
  EXPECT_THAT(run.output, HasSubstr("The weights sum to 1.0000."));
  EXPECT_THAT(run.output, Not(ContainsRegex("[^\n]{81}")));
}

TEST(DemoCommand, FailsWhereTheServiceDisagrees) {
  FakeServer server(AnswerWithWeights({0.5, 0.25, 0.25}));
  const CommandLineRun run = RunCommandLine(AddDemoCommand, {"demo", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("the service's weights are wrong: element 0 is 0.500000, must be 0.587"));
  EXPECT_THAT(run.output, Not(HasSubstr("agree")));
}

TEST(DemoCommand, FailsWhereNoServerIs) {
  const CommandLineRun run = RunCommandLine(AddDemoCommand, {"demo", "--address", "unix:/no/such/socket"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.errors, "attend: no server at unix:/no/such/socket: No such file or directory\n");
  EXPECT_EQ(run.output, "");
}

}  // namespace
}  // namespace attend::client
