// attend estimate as a program beside the real server: what it says is what the server does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/error_details.h"
#include "tests/integration/server_test.h"
#include "tests/testing/child_process.h"

namespace attend::testing {
namespace {

// [batch 1, heads, length, dim] of float16, with `heads` heads of everything.
struct Shape {
  int64_t heads = 1;
  int64_t query_length = 1;
  int64_t key_length = 1;
  int64_t dim = 64;
  bool weights = false;
};

class EstimateWireTest : public ServerTest {
 protected:
  static void SetUpTestSuite() {
    StartServer({.flags = {"--memory_budget=48MiB", "--receive_budget=24MiB", "--max_message_bytes=8MiB"}});
  }

  nlohmann::json Estimate(const Shape& shape) {
    const std::string line =
        absl::StrCat("estimate --json --element_type f16 --heads ", shape.heads, " --query_length ", shape.query_length,
                     " --length ", shape.key_length, " --head_dim ", shape.dim, shape.weights ? " --weights" : "");
    ChildProcess::Options options = {.command = {ClientProgram()},
                                     .environment = {"ATTEND_ADDRESS=" + server().grpc_address()}};
    for (const absl::string_view word : absl::StrSplit(line, ' ')) options.command.emplace_back(word);
    const auto finished = RunProgram(options);
    EXPECT_TRUE(finished.ok() && finished->exit.code == 0) << line;
    return nlohmann::json::parse(finished.ok() ? finished->standard_output : "", nullptr, false);
  }

  static absl::StatusOr<client::AttendResult> Attend(const Shape& shape) {
    const std::vector<std::byte> query(static_cast<size_t>(shape.heads * shape.query_length * shape.dim * 2));
    const std::vector<std::byte> key(static_cast<size_t>(shape.heads * shape.key_length * shape.dim * 2));
    const auto tensor = [&](int64_t length, const std::vector<std::byte>& data) {
      return client::TensorView{
          .data_type = v1::DATA_TYPE_FLOAT16, .shape = {1, shape.heads, length, shape.dim}, .data = data};
    };
    client::AttendRequest request;
    request.query = tensor(shape.query_length, query);
    request.key = tensor(shape.key_length, key);
    request.value = tensor(shape.key_length, key);
    request.results.set_weights(shape.weights);
    return client().Attend(request, {});
  }

  // The reason and value of the server's refusal.
  static client::ErrorDetails Refusal(const Shape& shape) {
    const auto result = Attend(shape);
    EXPECT_FALSE(result.ok());
    return client::GetErrorDetails(result.status()).value_or(client::ErrorDetails{});
  }
};

TEST_F(EstimateWireTest, WhatIsAdmittedCostsWhatWasSaid) {
  const Shape shape = {.heads = 2, .query_length = 100, .key_length = 300};
  const nlohmann::json estimate = Estimate(shape);
  EXPECT_EQ(estimate["server"]["admitted"], true) << estimate;
  EXPECT_GT(estimate["server"]["seconds"], 0.0);
  const auto result = Attend(shape);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(estimate["multiply_adds"], result->multiply_adds);
  EXPECT_GE(estimate["response_message_bytes"], result->response_bytes);
}

// Small on the wire, and padded when it is packed.
TEST_F(EstimateWireTest, MemoryToTheByte) {
  const Shape shape = {.heads = 12, .query_length = 40, .key_length = 160'000, .dim = 1};
  const nlohmann::json estimate = Estimate(shape);
  EXPECT_EQ(estimate["server"]["admitted"], false) << estimate;
  const client::ErrorDetails refusal = Refusal(shape);
  EXPECT_EQ(refusal.reason, "MEMORY_BUDGET_EXCEEDED");
  EXPECT_EQ(refusal.value, absl::StrCat(estimate["reserved_bytes"].get<int64_t>()));
}

TEST_F(EstimateWireTest, RequestsToTheByte) {
  const Shape shape = {.heads = 4, .query_length = 1000, .key_length = 9000};
  const nlohmann::json estimate = Estimate(shape);
  EXPECT_EQ(estimate["server"]["admitted"], false) << estimate;
  const client::ErrorDetails refusal = Refusal(shape);
  EXPECT_EQ(refusal.reason, "MESSAGE_TOO_LARGE");
  EXPECT_EQ(refusal.value, absl::StrCat(estimate["request_message_bytes"].get<int64_t>()));
}

TEST_F(EstimateWireTest, ResponsesToTheByte) {
  const Shape shape = {.heads = 4, .query_length = 1000, .key_length = 1000, .weights = true};
  const nlohmann::json estimate = Estimate(shape);
  EXPECT_EQ(estimate["server"]["admitted"], false) << estimate;
  const client::ErrorDetails refusal = Refusal(shape);
  EXPECT_EQ(refusal.reason, "RESPONSE_TOO_LARGE");
  EXPECT_EQ(refusal.value, absl::StrCat(estimate["response_message_bytes"].get<int64_t>()));
}

}  // namespace
}  // namespace attend::testing
