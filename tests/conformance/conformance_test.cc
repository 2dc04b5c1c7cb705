#include "tests/conformance/conformance_test.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "core/instruction_set.h"

namespace attend::testing {

namespace {

// A suite whose cap is the processor's best instruction set would compute what the one without a cap does.
class CapThatChangesNothing : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* cap = std::getenv("ATTEND_TEST_INSTRUCTION_SET");
    const auto best = core::DetectInstructionSet();
    if (cap != nullptr && best.ok() && core::InstructionSetName(*best) == cap) {
      GTEST_SKIP() << cap << " is what the processor does without the cap";
    }
  }
};

const ::testing::Environment* const kCapThatChangesNothing =
    ::testing::AddGlobalTestEnvironment(new CapThatChangesNothing);

// Where a row's numbers begin in a tensor, if they are in it.
const float* Begin(const std::vector<float>& tensor, bool has_rows, std::optional<int64_t> index) {
  return has_rows && index.has_value() && !tensor.empty() ? tensor.data() + *index : nullptr;
}

const float* Weights(const ResultRow& row) {
  const core::ResultSelection& asked = row.problem.results();
  return Begin(row.results.weights, asked.weights && !asked.average_weights_over_heads,
               WeightsIndex(row.problem, row.at));
}

const float* Scores(const ResultRow& row) {
  return Begin(row.results.scores, row.problem.results().scores != core::ScoreStage::kNone,
               ScoresIndex(row.problem, row.at));
}

const float* Logsumexp(const ResultRow& row) {
  return Begin(row.results.logsumexp, row.problem.results().logsumexp,
               RowIndex(row.problem, row.at.batch, row.at.head, row.at.query));
}

bool SameFloats(const float* a, const float* b, int64_t count) {
  return a == nullptr || b == nullptr || std::memcmp(a, b, count * sizeof(float)) == 0;
}

bool SameOutput(const ResultRow& a, const ResultRow& b) {
  if (a.results.output.empty() || b.results.output.empty()) return true;
  const int64_t size = core::ElementBytes(a.problem.output_type());
  return std::memcmp(a.results.output.data() + OutputPlace(a.problem, a.at) * size,
                     b.results.output.data() + OutputPlace(b.problem, b.at) * size,
                     a.problem.shape().value_dim * size) == 0;
}

}  // namespace

int64_t OracleWork(int64_t work) {
  const char* share = std::getenv("ATTEND_TEST_ORACLE_SHARE");
  return share == nullptr ? work : work / std::max(1, std::atoi(share));
}

bool SameRow(const ResultRow& a, const ResultRow& b) {
  const int64_t keys = KeyRows(a.problem, a.at.batch);
  return SameOutput(a, b) && SameFloats(Logsumexp(a), Logsumexp(b), 1) && SameFloats(Weights(a), Weights(b), keys) &&
         SameFloats(Scores(a), Scores(b), keys);
}

}  // namespace attend::testing
