// What the conformance tests have in common: a runner of two workers, made once per suite, and problems in short form.
#ifndef ATTEND_TESTS_CONFORMANCE_CONFORMANCE_TEST_H_
#define ATTEND_TESTS_CONFORMANCE_CONFORMANCE_TEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/attention_problem.h"
#include "tests/conformance/core_runner.h"
#include "tests/testing/generators.h"
#include "tests/testing/oracle.h"
#include "tests/testing/oracle_check.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

inline const core::ResultSelection kEveryResult = {.weights = true, .logsumexp = true};

inline constexpr core::ElementType kElementTypes[] = {core::ElementType::kFloat32, core::ElementType::kBFloat16,
                                                      core::ElementType::kFloat16};
inline constexpr core::CausalAlignment kCausalAlignments[] = {
    core::CausalAlignment::kNone, core::CausalAlignment::kTopLeft, core::CausalAlignment::kBottomRight};

// `work` for the oracle, or its share of it where time is short (CMakeLists.txt says where).
int64_t OracleWork(int64_t work);

class ConformanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto runner = CoreRunner::Create(/*workers=*/2);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }
  static void TearDownTestSuite() { runner_.reset(); }

  static CoreRunner& runner() { return *runner_; }

  // With all results. The shape is legal.
  static core::AttentionProblem MakeProblem(const core::AttentionShape& shape, core::ElementType type,
                                            const core::AttentionOptions& options = {},
                                            const core::ResultSelection& results = kEveryResult) {
    auto problem = core::AttentionProblem::Create(shape, type, options, results);
    EXPECT_TRUE(problem.ok()) << problem.status();
    return *std::move(problem);
  }

  // Computes and compares with the oracle.
  static void ExpectRight(const core::AttentionProblem& problem, const ProblemValues& values,
                          int64_t oracle_work = kDefaultOracleWork) {
    const auto results = runner().Run(problem, values);
    ASSERT_TRUE(results.ok()) << results.status() << " of " << Describe(problem) << ", seed " << values.seed;
    EXPECT_EQ(CheckResults(problem, values, *results, OracleWork(oracle_work)), absl::OkStatus());
  }

  // The results of a problem that computes.
  static ProblemResults Compute(const core::AttentionProblem& problem, const ProblemValues& values) {
    return Compute(runner(), problem, values);
  }
  static ProblemResults Compute(CoreRunner& on, const core::AttentionProblem& problem, const ProblemValues& values) {
    auto results = on.Run(problem, values);
    EXPECT_TRUE(results.ok()) << results.status() << " of " << Describe(problem) << ", seed " << values.seed;
    return results.ok() ? *std::move(results) : ProblemResults(problem);
  }

 private:
  static inline std::unique_ptr<CoreRunner> runner_;
};

// A row of a problem's results.
struct ResultRow {
  const core::AttentionProblem& problem;
  const ProblemResults& results;
  RowPosition at;
};

// Whether two rows have the same bits in every result that both have: output (of the same type), weights, scores,
// logsumexp. Averaged weights are not a row's.
bool SameRow(const ResultRow& a, const ResultRow& b);

// The same row of one problem computed twice.
inline bool SameRow(const core::AttentionProblem& problem, const ProblemResults& a, const ProblemResults& b,
                    const RowPosition& at) {
  return SameRow({problem, a, at}, {problem, b, at});
}

class ConformanceOfType : public ConformanceTest, public ::testing::WithParamInterface<core::ElementType> {};

inline std::string TypeName(const ::testing::TestParamInfo<core::ElementType>& type) {
  return std::string(core::ElementTypeName(type.param));
}

}  // namespace attend::testing

#endif  // ATTEND_TESTS_CONFORMANCE_CONFORMANCE_TEST_H_
