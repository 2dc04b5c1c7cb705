// Problems drawn at random: what no table thought of. A failure prints the problem, its seed and the worst element.
#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

// Each test computes this many problems.
constexpr int kProblemsPerTest = 15;
constexpr int kTests = 60;
constexpr int64_t kMaxMultiplyAdds = int64_t{1} << 25;

class RandomProblems : public ConformanceTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomProblems, ::testing::Range(0, kTests));

TEST_P(RandomProblems, AreRight) {
  for (int n = 0; n < kProblemsPerTest; ++n) {
    const ProblemInstance instance = DrawProblem(10000 + 100 * GetParam() + n, kMaxMultiplyAdds);
    ExpectRight(instance.problem, instance.values, int64_t{1} << 20);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace attend::testing
