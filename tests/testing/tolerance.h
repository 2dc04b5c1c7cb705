// How much a result may differ from the oracle: the bounds of the contract ("How correct"), here and nowhere else.
#ifndef ATTEND_TESTS_TESTING_TOLERANCE_H_
#define ATTEND_TESTS_TESTING_TOLERANCE_H_

#include "core/attention_problem.h"
#include "tests/testing/oracle.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// |got - want| <= absolute + relative * |want|.
struct Bound {
  double absolute = 0;
  double relative = 0;
  double Allows(double want) const;
};

struct Tolerances {
  Bound output;
  Bound weights;
  Bound scores;
  Bound logsumexp;
};

// A row of weights sums to 1 within this, whatever the type.
inline constexpr double kWeightSumTolerance = 2e-5;

// What the bounds are made of: for each tensor the largest error of the yardstick over all rows that were measured, so
// that no element on which the yardstick happens to be right fails a correct program. Infinities and NaN do not count.
class YardstickErrors {
 public:
  explicit YardstickErrors(const core::AttentionProblem& problem) : problem_(problem) {}

  // Measures the yardsticks on one row.
  void Add(const ProblemValues& values, const RowPosition& at, const OracleRow& oracle);

  Tolerances ToTolerances() const;

 private:
  struct Largest {
    double output = 0;
    double weights = 0;
  };
  // Rounds scores too, and with scores kept in f32: bounds hold with both, so the smaller one counts.
  void AddResults(const ProblemValues& values, const RowPosition& at, const OracleRow& oracle);
  void AddFloat32(const ProblemValues& values, const RowPosition& at, const OracleRow& oracle);

  const core::AttentionProblem& problem_;
  Largest own_scores_;
  Largest float32_scores_;
  double scores_ = 0;
  double logsumexp_ = 0;
  double largest_score_ = 0;
  double largest_value_ = 0;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_TOLERANCE_H_
