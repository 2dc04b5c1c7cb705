// The same bits every time, for random problems with every option: whatever the threads, the load, the batch, the
// layout and what else is asked for. tests/conformance/result_digest.cc compares processes.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"
#include "tests/conformance/problem_change.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

using core::Layout;
using core::ResultSelection;
using core::ScoreStage;

constexpr int64_t kMaxMultiplyAdds = int64_t{1} << 22;
constexpr int kProblems = 17;  // per test
constexpr int kTests = 3;      // 51 problems together

class SameBitsOfOptionsTest : public ConformanceTest, public ::testing::WithParamInterface<int> {
 protected:
  static ProblemInstance DrawNth(int n) { return DrawProblem(70'000 + n, kMaxMultiplyAdds); }
  static std::vector<ProblemInstance> Instances() {
    std::vector<ProblemInstance> instances;
    for (int n = 0; n < kProblems; ++n) instances.push_back(DrawNth(GetParam() * kProblems + n));
    return instances;
  }
  static ProblemResults Compute(const ProblemInstance& instance) {
    return ConformanceTest::Compute(instance.problem, instance.values);
  }
  static std::string Name(const ProblemInstance& instance) {
    return Describe(instance.problem) + ", seed " + std::to_string(instance.values.seed);
  }
};
INSTANTIATE_TEST_SUITE_P(Parts, SameBitsOfOptionsTest, ::testing::Range(0, kTests));

TEST_P(SameBitsOfOptionsTest, ForAnyNumberOfWorkers) {
  std::vector<std::unique_ptr<CoreRunner>> others;
  for (int workers : {1, 3, 7}) {
    auto other = CoreRunner::Create(workers);
    ASSERT_TRUE(other.ok()) << other.status();
    others.push_back(*std::move(other));
  }
  for (const ProblemInstance& instance : Instances()) {
    const ProblemResults want = Compute(instance);  // by two
    for (const auto& other : others) {
      EXPECT_EQ(ConformanceTest::Compute(*other, instance.problem, instance.values).FirstDifference(want), "")
          << Name(instance) << " by " << other->kernels().workers() << " workers";
    }
    const auto here = runner().RunHere(instance.problem, instance.values);
    ASSERT_TRUE(here.ok()) << here.status();
    EXPECT_EQ(here->FirstDifference(want), "") << Name(instance) << " on the caller's own thread";
  }
}

TEST_P(SameBitsOfOptionsTest, AloneAndInABatch) {
  for (const ProblemInstance& whole : Instances()) {
    const ProblemResults together = Compute(whole);
    for (int64_t b = 0; b < whole.problem.shape().batch; ++b) {
      const ProblemInstance element = ElementAlone(whole, b);
      const ProblemResults alone = Compute(element);
      for (const RowPosition& at : AllRows(element.problem)) {
        ASSERT_TRUE(SameRow({element.problem, alone, at}, {whole.problem, together, {b, at.head, at.query}}))
            << "row [" << b << "," << at.head << "," << at.query << "] of " << Name(whole) << "\nalone "
            << Describe(element.problem);
      }
    }
  }
}

// A problem in the other layout, or its sequences as batch elements.
TEST_P(SameBitsOfOptionsTest, InEveryLayout) {
  for (const ProblemInstance& instance : Instances()) {
    const ProblemResults want = Compute(instance);
    const auto expect_same = [&](const ProblemInstance& other, int64_t b, int64_t other_b) {
      const ProblemResults got = Compute(other);
      for (const RowPosition& at : AllRows(other.problem)) {
        if (at.batch != other_b) continue;
        ASSERT_TRUE(SameRow({other.problem, got, at}, {instance.problem, want, {b, at.head, at.query}}))
            << "row [" << b << "," << at.head << "," << at.query << "] of " << Name(instance) << "\nand "
            << Describe(other.problem);
      }
    };
    for (int64_t b = 0; b < instance.problem.shape().batch; ++b) {
      if (instance.problem.options().layout == Layout::kTHD) {
        expect_same(SequenceAsBatchElement(instance, b), b, 0);
        continue;
      }
      ProblemParts parts = ProblemParts::Of(instance);
      parts.options.layout = parts.options.layout == Layout::kBHND ? Layout::kBNHD : Layout::kBHND;
      expect_same(parts.ToInstance(), b, b);
    }
  }
}

// Each selection's results are those that any other selection has.
TEST_P(SameBitsOfOptionsTest, WhateverElseIsAskedFor) {
  for (const ProblemInstance& instance : Instances()) {
    ProblemParts parts = ProblemParts::Of(instance);
    const bool sequences = parts.options.layout == Layout::kTHD;
    parts.results = {
        .weights = !sequences, .scores = sequences ? ScoreStage::kNone : ScoreStage::kMasked, .logsumexp = true};
    const ProblemResults want = Compute(parts.ToInstance());
    std::vector<ResultSelection> selections = {{}, {.logsumexp = true}, {.logsumexp = true, .omit_output = true}};
    if (!sequences) {
      selections.push_back({.weights = true});
      selections.push_back({.weights = true, .omit_output = true});
      selections.push_back({.scores = ScoreStage::kMasked, .omit_output = true});
    }
    for (const ResultSelection& selection : selections) {
      parts.results = selection;
      const ProblemInstance other = parts.ToInstance();
      EXPECT_EQ(Compute(other).FirstDifference(want), "") << Name(other);
    }
  }
}

TEST_P(SameBitsOfOptionsTest, SomeRowsAndAllRows) {
  for (const ProblemInstance& instance : Instances()) {
    ProblemParts parts = ProblemParts::Of(instance);
    if (parts.options.layout == Layout::kTHD || parts.shape.query_length == 0) continue;
    Draw draw(instance.values.seed);
    parts.results = {.weights = true, .scores = ScoreStage::kScaled, .logsumexp = true};
    const ProblemInstance all = parts.ToInstance();
    const ProblemResults want = Compute(all);
    for (int64_t i = 0; i < parts.shape.query_length; ++i) {
      if (draw.OneIn(10)) parts.results.weight_query_rows.insert(parts.results.weight_query_rows.begin(), i);
    }
    if (parts.results.weight_query_rows.empty()) parts.results.weight_query_rows = {parts.shape.query_length - 1};
    const ProblemInstance some = parts.ToInstance();
    const ProblemResults got = Compute(some);
    for (const RowPosition& at : AllRows(some.problem)) {
      ASSERT_TRUE(SameRow({some.problem, got, at}, {all.problem, want, at}))
          << "row [" << at.batch << "," << at.head << "," << at.query << "] of " << Name(some);
    }
  }
}

using SameBitsBesideOthersTest = ConformanceTest;

TEST_F(SameBitsBesideOthersTest, AloneAndBesideFiftyOthers) {
  std::vector<ProblemInstance> instances;
  std::vector<ProblemResults> want;
  for (int n = 0; n < kProblems * kTests; ++n) {
    instances.push_back(DrawProblem(70'000 + n, kMaxMultiplyAdds));
    want.push_back(Compute(instances.back().problem, instances.back().values));
  }
  for (int workers : {1, 2, 3, 7}) {
    auto other = CoreRunner::Create(workers);
    ASSERT_TRUE(other.ok()) << other.status();
    const auto results = (*other)->RunTogether(instances);
    for (size_t n = 0; n < instances.size(); ++n) {
      ASSERT_TRUE(results[n].ok()) << results[n].status() << " of " << Describe(instances[n].problem);
      EXPECT_EQ(results[n]->FirstDifference(want[n]), "")
          << Describe(instances[n].problem) << ", seed " << instances[n].values.seed << ", " << workers << " workers";
    }
  }
}

}  // namespace
}  // namespace attend::testing
