// The core's conformance through the wire: what a client gets has the bits that core computes, and is right.
#include <future>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/core_runner.h"
#include "tests/integration/server_test.h"
#include "tests/integration/wire_problem.h"
#include "tests/testing/generators.h"
#include "tests/testing/oracle_check.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;

constexpr int64_t kOracleWork = int64_t{1} << 20;

class WireAndCoreTest : public ServerTest {
 protected:
  static void SetUpTestSuite() {
    ServerTest::SetUpTestSuite();
    auto created = CoreRunner::Create(/*workers=*/1);
    ASSERT_TRUE(created.ok()) << created.status();
    core_ = *std::move(created);
  }
  static void TearDownTestSuite() {
    core_.reset();
    ServerTest::TearDownTestSuite();
  }

  // Computes over the wire, compares with the oracle and with core, bit for bit.
  void ExpectSameAsCore(const AttentionProblem& problem, const ProblemValues& values) {
    const auto received = ComputeOverWire(client(), problem, values);
    ASSERT_TRUE(received.ok()) << Describe(problem) << ": " << received.status();
    EXPECT_EQ(CheckResults(problem, values, *received, kOracleWork), absl::OkStatus());
    const auto computed = core_->Run(problem, values);
    ASSERT_TRUE(computed.ok()) << computed.status();
    EXPECT_EQ(received->FirstDifference(*computed), "") << Describe(problem);
  }

 private:
  static inline std::unique_ptr<CoreRunner> core_;
};

// Every option and result, alone and with others, drawn from seeds.
TEST_F(WireAndCoreTest, RandomProblems) {
  constexpr uint64_t kFirstSeed = 1'000'000;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + 400 && !HasFailure(); ++seed) {
    const ProblemInstance instance = DrawProblem(seed, /*max_multiply_adds=*/int64_t{1} << 22);
    ExpectSameAsCore(instance.problem, instance.values);
  }
}

class WireConformanceTest : public WireAndCoreTest,
                            public ::testing::WithParamInterface<std::tuple<ElementType, Layout>> {
 protected:
  ElementType type() const { return std::get<ElementType>(GetParam()); }
  Layout layout() const { return std::get<Layout>(GetParam()); }

  void ExpectSameAsCore(const AttentionShape& shape, AttentionOptions options, uint64_t seed) {
    options.layout = layout();
    const auto problem =
        AttentionProblem::Create(shape, type(), options, {.weights = seed % 2 == 0, .logsumexp = seed % 3 == 0});
    ASSERT_TRUE(problem.ok()) << problem.status();
    WireAndCoreTest::ExpectSameAsCore(*problem, Generate(*problem, seed));
  }
};

INSTANTIATE_TEST_SUITE_P(TypesAndLayouts, WireConformanceTest,
                         ::testing::Combine(::testing::Values(ElementType::kFloat32, ElementType::kBFloat16,
                                                              ElementType::kFloat16),
                                            ::testing::Values(Layout::kBHND, Layout::kBNHD)),
                         [](const auto& param) {
                           const bool bhnd = std::get<Layout>(param.param) == Layout::kBHND;
                           return std::string(core::ElementTypeName(std::get<ElementType>(param.param))) +
                                  (bhnd ? "_BHND" : "_BNHD");
                         });

TEST_P(WireConformanceTest, Dims) {
  uint64_t seed = 100;
  for (const auto& [head_dim, value_dim] :
       {std::pair(1, 1), {3, 5}, {33, 33}, {80, 80}, {96, 64}, {112, 112}, {160, 160}, {576, 512}, {1024, 1}}) {
    const AttentionShape shape = {.query_heads = 2,
                                  .kv_heads = 1,
                                  .query_length = 19,
                                  .key_length = 70,
                                  .head_dim = head_dim,
                                  .value_dim = value_dim};
    ExpectSameAsCore(shape, {.causal = CausalAlignment::kBottomRight}, ++seed);
  }
}

TEST_P(WireConformanceTest, Lengths) {
  constexpr int64_t kLengths[] = {0, 1, 15, 17, 63, 65, 255, 257, 1023, 1025};
  uint64_t seed = 200;
  for (int64_t query_length : kLengths) {
    for (int64_t key_length : kLengths) {
      const CausalAlignment causal = seed % 2 == 0 ? CausalAlignment::kTopLeft : CausalAlignment::kBottomRight;
      ExpectSameAsCore({.query_length = query_length, .key_length = key_length, .head_dim = 16, .value_dim = 8},
                       {.causal = query_length == key_length ? CausalAlignment::kNone : causal}, ++seed);
    }
  }
}

TEST_P(WireConformanceTest, HeadsAndBatches) {
  uint64_t seed = 500;
  for (const auto& [query_heads, kv_heads] : {std::pair(1, 1), {4, 2}, {7, 1}, {16, 2}}) {
    for (int64_t batch : {0, 1, 3}) {
      const AttentionShape shape = {.batch = batch,
                                    .query_heads = query_heads,
                                    .kv_heads = kv_heads,
                                    .query_length = 20,
                                    .key_length = 33,
                                    .head_dim = 24,
                                    .value_dim = 40};
      ExpectSameAsCore(shape, {.scale = -0.3F}, ++seed);
    }
  }
}

TEST_P(WireConformanceTest, KeyLengthsAndScales) {
  const AttentionShape shape = {.batch = 3,
                                .query_heads = 2,
                                .kv_heads = 2,
                                .query_length = 40,
                                .key_length = 90,
                                .head_dim = 20,
                                .value_dim = 12};
  uint64_t seed = 600;
  for (CausalAlignment causal : {CausalAlignment::kNone, CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
    ExpectSameAsCore(shape, {.causal = causal, .key_lengths = {0, 90, 41}}, ++seed);
    ExpectSameAsCore(shape, {.scale = 0.0F, .causal = causal, .key_lengths = {1, 64, 65}}, ++seed);
    ExpectSameAsCore(shape, {.scale = 1.5F, .causal = causal}, ++seed);
  }
}

// Tens of megabytes each way, which arrive in many pieces.
TEST_P(WireConformanceTest, LargeMessages) {
  const AttentionShape shape = {
      .query_heads = 16, .kv_heads = 16, .query_length = 700, .key_length = 1500, .head_dim = 128, .value_dim = 100};
  ExpectSameAsCore(shape, {.causal = CausalAlignment::kBottomRight}, 701);
}

// Many calls at the same time get the bits that each gets alone.
TEST_P(WireConformanceTest, CallsAtTheSameTime) {
  constexpr int kCalls = 24;
  std::vector<AttentionProblem> problems;
  std::vector<ProblemValues> values;
  std::vector<std::unique_ptr<ProblemBytes>> bytes;
  for (int n = 0; n < kCalls; ++n) {
    const AttentionShape shape = {.query_heads = 1 + n % 3,
                                  .query_length = 1 + 37 * (n % 7),
                                  .key_length = 1 + 53 * (n % 11),
                                  .head_dim = 32,
                                  .value_dim = 16};
    problems.push_back(AttentionProblem::Create(shape, type(), {.layout = layout()}, {.logsumexp = true}).value());
    values.push_back(Generate(problems.back(), 800 + n));
    bytes.push_back(std::make_unique<ProblemBytes>(problems.back(), values.back()));
  }
  std::vector<std::promise<absl::StatusOr<client::AttendResult>>> done(kCalls);
  for (int n = 0; n < kCalls; ++n) {
    client().AttendAsync(MakeRequest(problems[n], *bytes[n]), {},
                         [&done, n](auto result) { done[n].set_value(std::move(result)); });
  }
  for (int n = 0; n < kCalls; ++n) {
    const auto result = done[n].get_future().get();
    ASSERT_TRUE(result.ok()) << result.status();
    const auto together = ReadResults(problems[n], *result);
    ASSERT_TRUE(together.ok()) << together.status();
    EXPECT_EQ(CheckResults(problems[n], values[n], *together, kOracleWork), absl::OkStatus());
    const auto alone = ComputeOverWire(client(), problems[n], values[n]);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(together->FirstDifference(*alone), "") << Describe(problems[n]);
  }
}

}  // namespace
}  // namespace attend::testing
