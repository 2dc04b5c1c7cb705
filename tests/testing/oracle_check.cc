#include "tests/testing/oracle_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/testing/tolerance.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;

constexpr size_t kMinRows = 16;

// One tensor's comparison: how many elements are wrong, and the worst of them.
class Comparison {
 public:
  Comparison(std::string name, const Bound& bound) : name_(std::move(name)), bound_(bound) {}

  // `column` is the place in the row, -1 for tensors without one.
  void Add(const RowPosition& at, int64_t column, double got, double want) {
    ++compared_;
    const double excess = Excess(got, want);
    if (excess <= 1) return;
    ++wrong_;
    if (excess <= worst_excess_) return;
    worst_excess_ = excess;
    worst_ = absl::StrCat(name_, "[", at.batch, ",", at.head, ",", at.query, column < 0 ? "" : ",",
                          column < 0 ? "" : absl::StrCat(column), "] is ", Exactly(got), ", must be ", Exactly(want),
                          " within ", bound_.Allows(want), " (error ", std::abs(got - want), ")");
  }

  // Empty if everything is right.
  std::string Report() const {
    if (wrong_ == 0) return "";
    return absl::StrCat(wrong_, " of ", compared_, " elements of ", name_, " are wrong, the worst: ", worst_);
  }

 private:
  static std::string Exactly(double value) {
    std::array<char, 40> text;
    std::snprintf(text.data(), text.size(), "%.9g", value);
    return text.data();
  }

  // The error in bounds: right if at most 1. Numbers that are not numbers are right or infinitely wrong.
  double Excess(double got, double want) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (std::isnan(want)) return std::isnan(got) ? 0 : kInfinity;
    if (got == want) return 0;
    if (!std::isfinite(want) || !std::isfinite(got)) return kInfinity;
    return std::abs(got - want) / bound_.Allows(want);
  }

  std::string name_;
  Bound bound_;
  int64_t compared_ = 0;
  int64_t wrong_ = 0;
  double worst_excess_ = 0;
  std::string worst_;
};

absl::Status Failure(const AttentionProblem& problem, const std::vector<std::string>& reports) {
  return absl::InternalError(absl::StrCat(Describe(problem), ": ", absl::StrJoin(reports, "; ")));
}

// The rows of a head that go wrong first: the ends, and both sides of the borders of tiles.
std::vector<int64_t> BorderQueries(int64_t query_length) {
  std::set<int64_t> queries;
  for (int64_t border = 0; border <= query_length; border += 64) {
    for (int64_t i : {border - 1, border}) {
      if (i >= 0 && i < query_length) queries.insert(i);
    }
  }
  queries.insert(query_length - 1);
  return {queries.begin(), queries.end()};
}

struct CheckedRow {
  RowPosition at;
  OracleRow oracle;
};

absl::Status CompareRows(const AttentionProblem& problem, const ProblemResults& results,
                         const std::vector<CheckedRow>& rows, const Tolerances& tolerances) {
  const AttentionShape& shape = problem.shape();
  const std::vector<float> output_values = results.OutputValues(problem);
  Comparison output("output", tolerances.output);
  Comparison weights("weights", tolerances.weights);
  Comparison logsumexp("logsumexp", tolerances.logsumexp);
  for (const CheckedRow& row : rows) {
    const auto& [b, h, i] = row.at;
    const float* got = output_values.data() + OutputIndex(shape, b, h, i);
    for (int64_t d = 0; d < shape.value_dim; ++d) output.Add(row.at, d, got[d], row.oracle.output[d]);
    const int64_t index = RowIndex(shape, b, h, i);
    if (problem.results().logsumexp) logsumexp.Add(row.at, -1, results.logsumexp.at(index), row.oracle.logsumexp);
    if (!problem.results().weights) continue;
    for (int64_t j = 0; j < shape.key_length; ++j) {
      weights.Add(row.at, j, results.weights.at(index * shape.key_length + j), row.oracle.weights[j]);
    }
  }
  std::vector<std::string> reports;
  for (const Comparison* comparison : {&output, &weights, &logsumexp}) {
    if (std::string report = comparison->Report(); !report.empty()) reports.push_back(std::move(report));
  }
  return reports.empty() ? absl::OkStatus() : Failure(problem, reports);
}

// Empty if row `at` is what its masks say.
std::string MaskedRowReport(const AttentionProblem& problem, const ProblemResults& results, const RowPosition& at,
                            const float* output) {
  const AttentionShape& shape = problem.shape();
  const std::string place = absl::StrCat("row [", at.batch, ",", at.head, ",", at.query, "]");
  const int64_t index = RowIndex(shape, at.batch, at.head, at.query);
  const std::vector<bool> visible = VisibleKeys(problem, at);
  const bool empty = std::find(visible.begin(), visible.end(), true) == visible.end();
  if (empty && !std::all_of(output, output + shape.value_dim, [](float element) { return element == 0; })) {
    return absl::StrCat(place, " sees no key, but its output is not 0");
  }
  if (empty && problem.results().logsumexp && results.logsumexp.at(index) != -std::numeric_limits<float>::infinity()) {
    return absl::StrCat(place, " sees no key, but its logsumexp is ", results.logsumexp.at(index));
  }
  if (!problem.results().weights) return "";
  double sum = 0;
  for (int64_t j = 0; j < shape.key_length; ++j) {
    const float weight = results.weights.at(index * shape.key_length + j);
    if (!visible[j] && weight != 0) return absl::StrCat(place, " does not see key ", j, ", but weighs it ", weight);
    sum += weight;
  }
  if (!empty && !std::isnan(sum) && std::abs(sum - 1) > kWeightSumTolerance) {
    return absl::StrCat("the weights of ", place, " sum to ", sum);
  }
  return "";
}

}  // namespace

std::vector<RowPosition> ChooseRows(const AttentionProblem& problem, uint64_t seed, int64_t max_multiply_adds) {
  const AttentionShape& shape = problem.shape();
  const int64_t total = shape.batch * shape.query_heads * shape.query_length;
  const int64_t row_cost = std::max<int64_t>(1, shape.key_length) * (shape.head_dim + shape.value_dim + 8);
  const auto wanted = std::max<size_t>(kMinRows, static_cast<size_t>(max_multiply_adds / row_cost));
  const auto position = [&shape](int64_t row) -> RowPosition {
    const int64_t head_row = row / shape.query_length;
    return {head_row / shape.query_heads, head_row % shape.query_heads, row % shape.query_length};
  };
  std::vector<RowPosition> rows;
  if (static_cast<size_t>(total) <= wanted) {
    for (int64_t row = 0; row < total; ++row) rows.push_back(position(row));
    return rows;
  }
  std::mt19937_64 random(seed);
  std::set<int64_t> chosen = {0, total - 1};
  std::vector<int64_t> borders = BorderQueries(shape.query_length);
  std::shuffle(borders.begin(), borders.end(), random);
  for (int64_t i : borders) {
    if (chosen.size() >= wanted / 2) break;
    chosen.insert(static_cast<int64_t>(random() % (shape.batch * shape.query_heads)) * shape.query_length + i);
  }
  while (chosen.size() < wanted) chosen.insert(static_cast<int64_t>(random() % total));
  for (int64_t row : chosen) rows.push_back(position(row));
  return rows;
}

absl::Status CheckResults(const AttentionProblem& problem, const ProblemValues& values, const ProblemResults& results,
                          int64_t max_multiply_adds) {
  if (absl::Status status = CheckMasks(problem, results); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("seed ", values.seed, ": ", status.message()));
  }
  std::vector<CheckedRow> rows;
  YardstickErrors errors(problem);
  for (const RowPosition& at : ChooseRows(problem, values.seed, max_multiply_adds)) {
    rows.push_back({at, ComputeOracleRow(problem, values, at)});
    errors.Add(values, at, rows.back().oracle);
  }
  const absl::Status status = CompareRows(problem, results, rows, errors.ToTolerances());
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("seed ", values.seed, ": ", status.message()));
}

absl::Status CheckMasks(const AttentionProblem& problem, const ProblemResults& results) {
  const AttentionShape& shape = problem.shape();
  const std::vector<float> output = results.OutputValues(problem);
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t row = 0; row < shape.query_heads * shape.query_length; ++row) {
      const RowPosition at = {b, row / shape.query_length, row % shape.query_length};
      const float* output_row = output.data() + OutputIndex(shape, b, at.head, at.query);
      const std::string report = MaskedRowReport(problem, results, at, output_row);
      if (!report.empty()) return Failure(problem, {report});
    }
  }
  return absl::OkStatus();
}

}  // namespace attend::testing
