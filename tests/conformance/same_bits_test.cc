// The same bits every time: what is computed for a batch element depends on that element alone.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;

class SameBitsTest : public ConformanceOfType {
 protected:
  // Problems of very different tiles: one row, a part of a block, several blocks of queries and keys, groups of heads.
  static std::vector<ProblemInstance> Instances() {
    std::vector<ProblemInstance> instances;
    uint64_t seed = 100;
    for (const auto& [query_length, key_length] : {std::pair(1, 5), {1, 1300}, {16, 16}, {130, 257}, {300, 1100}}) {
      for (const auto& [query_heads, dim] : {std::pair(2, 16), {6, 33}, {16, 64}}) {
        const AttentionShape shape = {.batch = 2,
                                      .query_heads = query_heads,
                                      .kv_heads = 2,
                                      .query_length = query_length,
                                      .key_length = key_length,
                                      .head_dim = dim,
                                      .value_dim = dim + 8};
        const CausalAlignment causal = kCausalAlignments[++seed % 3];
        const auto problem = MakeProblem(shape, GetParam(), {.causal = causal});
        instances.push_back({problem, Generate(problem, seed)});
      }
    }
    return instances;
  }
};
INSTANTIATE_TEST_SUITE_P(ElementTypes, SameBitsTest, ::testing::ValuesIn(kElementTypes), TypeName);

TEST_P(SameBitsTest, ForAnyNumberOfWorkers) {
  std::vector<std::unique_ptr<CoreRunner>> others;
  for (int workers : {1, 3}) {
    auto other = CoreRunner::Create(workers);
    ASSERT_TRUE(other.ok()) << other.status();
    others.push_back(*std::move(other));
  }
  for (const ProblemInstance& instance : Instances()) {
    const ProblemResults want = Compute(instance.problem, instance.values);
    EXPECT_EQ(CheckResults(instance.problem, instance.values, want, int64_t{1} << 20), absl::OkStatus());
    for (const auto& other : others) {
      EXPECT_EQ(Compute(*other, instance.problem, instance.values).FirstDifference(want), "")
          << Describe(instance.problem) << " by " << other->kernels().workers() << " workers";
    }
  }
}

TEST_P(SameBitsTest, AloneAndBesideOtherJobs) {
  const std::vector<ProblemInstance> instances = Instances();
  std::vector<ProblemResults> want;
  for (const ProblemInstance& instance : instances) want.push_back(Compute(instance.problem, instance.values));
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto results = runner().RunTogether(instances);
    for (size_t n = 0; n < instances.size(); ++n) {
      ASSERT_TRUE(results[n].ok()) << results[n].status();
      EXPECT_EQ(results[n]->FirstDifference(want[n]), "") << Describe(instances[n].problem);
    }
  }
}

// Batch element `b` of a problem as a problem of its own.
ProblemInstance ElementAlone(const ProblemInstance& whole, int64_t b) {
  AttentionShape shape = whole.problem.shape();
  core::AttentionOptions options = whole.problem.options();
  const auto part = [&shape, b](const std::vector<float>& tensor) {
    const int64_t size = static_cast<int64_t>(tensor.size()) / shape.batch;
    return std::vector<float>(tensor.begin() + b * size, tensor.begin() + (b + 1) * size);
  };
  ProblemValues values = {part(whole.values.query), part(whole.values.key), part(whole.values.value),
                          whole.values.seed};
  shape.batch = 1;
  if (!options.key_lengths.empty()) options.key_lengths = {options.key_lengths[b]};
  auto problem = AttentionProblem::Create(shape, whole.problem.type(), options, whole.problem.results());
  return {*std::move(problem), std::move(values)};
}

TEST_P(SameBitsTest, AloneAndInABatch) {
  uint64_t seed = 200;
  for (const auto& [query_length, key_length] : {std::pair(1, 70), {40, 256}, {150, 700}}) {
    for (const std::vector<int64_t>& key_lengths : {std::vector<int64_t>{}, {key_length, 0, 65, 33, key_length - 1}}) {
      const AttentionShape shape = {.batch = 5,
                                    .query_heads = 4,
                                    .kv_heads = 2,
                                    .query_length = query_length,
                                    .key_length = key_length,
                                    .head_dim = 33,
                                    .value_dim = 16};
      const auto problem =
          MakeProblem(shape, GetParam(), {.causal = CausalAlignment::kBottomRight, .key_lengths = key_lengths});
      const ProblemInstance whole = {problem, Generate(problem, ++seed)};
      const ProblemResults together = Compute(problem, whole.values);
      for (int64_t b = 0; b < shape.batch; ++b) {
        const ProblemInstance element = ElementAlone(whole, b);
        const ProblemResults alone = Compute(element.problem, element.values);
        EXPECT_EQ(
            0, std::memcmp(alone.output.data(), together.output.data() + b * alone.output.size(), alone.output.size()))
            << Describe(element.problem) << ", seed " << seed << ", element " << b;
        EXPECT_EQ(0, std::memcmp(alone.weights.data(), together.weights.data() + b * alone.weights.size(),
                                 alone.weights.size() * sizeof(float)));
        EXPECT_EQ(0, std::memcmp(alone.logsumexp.data(), together.logsumexp.data() + b * alone.logsumexp.size(),
                                 alone.logsumexp.size() * sizeof(float)));
      }
    }
  }
}

TEST_P(SameBitsTest, WithAndWithoutOtherResults) {
  for (const ProblemInstance& instance : Instances()) {
    const ProblemResults want = Compute(instance.problem, instance.values);
    for (const core::ResultSelection& results : {core::ResultSelection{}, {.weights = true}, {.logsumexp = true}}) {
      const auto problem = MakeProblem(instance.problem.shape(), GetParam(), instance.problem.options(), results);
      EXPECT_EQ(Compute(problem, instance.values).FirstDifference(want), "") << Describe(problem);
    }
  }
}

// Keys appended as padding, and hidden by key_lengths, change nothing.
TEST_P(SameBitsTest, WithAndWithoutPadding) {
  uint64_t seed = 300;
  for (const auto& [keys, padding] :
       {std::pair(70, 1), {64, 64}, {200, 100}, {256, 1}, {500, 40}, {513, 600}, {30, 1000}, {1, 3}}) {
    for (CausalAlignment causal : kCausalAlignments) {
      const AttentionShape shape = {
          .query_heads = 2, .query_length = 66, .key_length = keys, .head_dim = 20, .value_dim = 16};
      AttentionShape padded_shape = shape;
      padded_shape.key_length += padding;
      const auto problem = MakeProblem(shape, GetParam(), {.causal = causal}, {.logsumexp = true});
      const auto padded =
          MakeProblem(padded_shape, GetParam(), {.causal = causal, .key_lengths = {keys}}, {.logsumexp = true});
      const ProblemValues values = Generate(problem, ++seed);
      ProblemValues padded_values = values;
      padded_values.key.resize(padded_shape.key_length * shape.head_dim, 7);
      padded_values.value.resize(padded_shape.key_length * shape.value_dim, 7);
      EXPECT_EQ(Compute(padded, padded_values).FirstDifference(Compute(problem, values)), "")
          << Describe(padded) << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace attend::testing
