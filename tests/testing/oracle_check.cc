#include "tests/testing/oracle_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <span>
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

// Compares every result of some rows.
class RowComparison {
 public:
  RowComparison(const AttentionProblem& problem, const ProblemResults& results, const Tolerances& tolerances)
      : problem_(problem),
        results_(results),
        output_values_(results.OutputValues(problem)),
        output_("output", tolerances.output),
        weights_("weights", tolerances.weights),
        scores_("scores", tolerances.scores),
        logsumexp_("logsumexp", tolerances.logsumexp) {}

  void AddOutput(const CheckedRow& row) {
    if (problem_.results().omit_output) return;
    const float* got = output_values_.data() + OutputIndex(problem_, row.at.batch, row.at.head, row.at.query);
    for (int64_t d = 0; d < problem_.shape().value_dim; ++d) output_.Add(row.at, d, got[d], row.oracle.output[d]);
  }
  void AddLogsumexp(const CheckedRow& row) {
    if (!problem_.results().logsumexp) return;
    const int64_t index = RowIndex(problem_, row.at.batch, row.at.head, row.at.query);
    logsumexp_.Add(row.at, -1, results_.logsumexp.at(index), row.oracle.logsumexp);
  }
  void AddScores(const CheckedRow& row) {
    const core::ScoreStage stage = problem_.results().scores;
    if (stage != core::ScoreStage::kNone) {
      AddKeys(row.at, ScoresIndex(problem_, row.at), results_.scores, row.oracle.Scores(stage), &scores_);
    }
  }
  // `weights` are the row's own, or the mean over the heads where the results are that.
  void AddWeights(const RowPosition& at, const std::vector<double>& weights) {
    if (problem_.results().weights) AddKeys(at, WeightsIndex(problem_, at), results_.weights, weights, &weights_);
  }

  absl::Status ToStatus() const {
    std::vector<std::string> reports;
    for (const Comparison* comparison : {&output_, &weights_, &scores_, &logsumexp_}) {
      if (std::string report = comparison->Report(); !report.empty()) reports.push_back(std::move(report));
    }
    return reports.empty() ? absl::OkStatus() : Failure(problem_, reports);
  }

 private:
  static void AddKeys(const RowPosition& at, std::optional<int64_t> index, const std::vector<float>& got,
                      const std::vector<double>& want, Comparison* comparison) {
    if (!index.has_value()) return;  // not one of the rows that are asked for
    for (size_t j = 0; j < want.size(); ++j) {
      comparison->Add(at, static_cast<int64_t>(j), got.at(*index + static_cast<int64_t>(j)), want[j]);
    }
  }

  const AttentionProblem& problem_;
  const ProblemResults& results_;
  const std::vector<float> output_values_;
  Comparison output_;
  Comparison weights_;
  Comparison scores_;
  Comparison logsumexp_;
};

// The mean over the heads of rows that are all the heads of one query.
std::vector<double> MeanWeights(std::span<const CheckedRow> heads) {
  std::vector<double> mean = heads.front().oracle.weights;
  for (const CheckedRow& row : heads.subspan(1)) {
    for (size_t j = 0; j < mean.size(); ++j) mean[j] += row.oracle.weights[j];
  }
  for (double& weight : mean) weight /= static_cast<double>(heads.size());
  return mean;
}

// Every head of every query of `rows`.
std::vector<RowPosition> WithAllHeads(const AttentionProblem& problem, const std::vector<RowPosition>& rows) {
  std::set<std::pair<int64_t, int64_t>> queries;
  for (const RowPosition& at : rows) queries.insert({at.batch, at.query});
  std::vector<RowPosition> all;
  for (const auto& [b, i] : queries) {
    for (int64_t h = 0; h < problem.shape().query_heads; ++h) all.push_back({b, h, i});
  }
  return all;
}

absl::Status CompareRows(const AttentionProblem& problem, const ProblemResults& results,
                         const std::vector<CheckedRow>& rows, const Tolerances& tolerances) {
  RowComparison comparison(problem, results, tolerances);
  const auto heads = static_cast<size_t>(problem.shape().query_heads);
  for (size_t n = 0; n < rows.size(); ++n) {
    comparison.AddOutput(rows[n]);
    comparison.AddLogsumexp(rows[n]);
    comparison.AddScores(rows[n]);
    if (!problem.results().average_weights_over_heads) {
      comparison.AddWeights(rows[n].at, rows[n].oracle.weights);
    } else if (n % heads == 0) {
      comparison.AddWeights(rows[n].at, MeanWeights(std::span(rows).subspan(n, heads)));
    }
  }
  return comparison.ToStatus();
}

void RoundAll(core::ElementType type, std::vector<double>* numbers) {
  for (double& number : *numbers) number = RoundTo(type, static_cast<float>(number));
}

// Compares exactly what is exact of a row.
void AddExactRow(const AttentionProblem& problem, CheckedRow row, RowComparison* comparison) {
  OracleRow& oracle = row.oracle;
  const double sink = SinkOf(problem, row.at.head);
  double largest = sink;
  for (const double score : oracle.masked) largest = std::max(largest, score);
  const auto sharing = static_cast<uint64_t>(std::count(oracle.masked.begin(), oracle.masked.end(), largest) +
                                             (sink == largest ? 1 : 0));
  const bool empty = std::isinf(largest);
  RoundAll(problem.options().output_type.value_or(problem.type()), &oracle.output);
  RoundAll(core::ElementType::kFloat32, &oracle.weights);
  comparison->AddScores(row);
  if (empty || sharing == 1) comparison->AddLogsumexp(row);
  if (!empty && !std::has_single_bit(sharing)) return;
  comparison->AddOutput(row);
  if (!problem.results().average_weights_over_heads) comparison->AddWeights(row.at, oracle.weights);
}

// Empty if the weights and scores of row `at` are what its masks say.
std::string MaskedKeysReport(const AttentionProblem& problem, const ProblemResults& results, const RowPosition& at,
                             const std::vector<bool>& visible) {
  const auto weights = problem.results().average_weights_over_heads ? std::nullopt : WeightsIndex(problem, at);
  const auto scores = ScoresIndex(problem, at);
  double sum = 0;
  for (int64_t j = 0; j < static_cast<int64_t>(visible.size()); ++j) {
    if (problem.results().scores == core::ScoreStage::kMasked && scores.has_value() && !visible[j] &&
        results.scores.at(*scores + j) != -std::numeric_limits<float>::infinity()) {
      return absl::StrCat("does not see key ", j, ", but scores it ", results.scores.at(*scores + j));
    }
    if (!problem.results().weights || !weights.has_value()) continue;
    const float weight = results.weights.at(*weights + j);
    if (!visible[j] && weight != 0) return absl::StrCat("does not see key ", j, ", but weighs it ", weight);
    sum += weight;
  }
  const bool empty = std::find(visible.begin(), visible.end(), true) == visible.end();
  if (!problem.results().weights || !weights.has_value() || empty || std::isnan(sum)) return "";
  const double missing = 1 - sum;  // up to all of it may be the sink's
  const bool right = problem.options().sinks.empty() ? std::abs(missing) <= kWeightSumTolerance
                                                     : missing >= -kWeightSumTolerance && sum >= 0;
  return right ? "" : absl::StrCat("has weights that sum to ", sum);
}

// Empty if the rest of row `at` is what its masks say.
std::string EmptyRowReport(const AttentionProblem& problem, const ProblemResults& results, const RowPosition& at,
                           const std::vector<float>& output) {
  const int64_t first = OutputIndex(problem, at.batch, at.head, at.query);
  for (int64_t d = 0; d < problem.shape().value_dim && !problem.results().omit_output; ++d) {
    if (output.at(first + d) != 0) return "sees no key, but its output is not 0";
  }
  if (!problem.results().logsumexp) return "";
  const float logsumexp = results.logsumexp.at(RowIndex(problem, at.batch, at.head, at.query));
  if (double{logsumexp} != SinkOf(problem, at.head)) {
    return absl::StrCat("sees no key, but its logsumexp is ", logsumexp);
  }
  return "";
}

absl::Status WithSeed(const ProblemValues& values, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("seed ", values.seed, ": ", status.message()));
}

// Where the row `index` of AllRows is.
RowPosition RowAt(const AttentionProblem& problem, int64_t index) {
  const AttentionShape& shape = problem.shape();
  if (problem.options().layout != core::Layout::kTHD) {
    const int64_t head_row = index / shape.query_length;
    return {head_row / shape.query_heads, head_row % shape.query_heads, index % shape.query_length};
  }
  int64_t b = 0;
  while (index >= QueryRows(problem, b) * shape.query_heads) index -= QueryRows(problem, b++) * shape.query_heads;
  return {b, index / QueryRows(problem, b), index % QueryRows(problem, b)};
}

int64_t RowCount(const AttentionProblem& problem) {
  const AttentionShape& shape = problem.shape();
  return (problem.options().layout == core::Layout::kTHD ? 1 : shape.batch) * shape.query_heads * shape.query_length;
}

// Rows of a problem of more than `wanted`, in ascending order.
std::set<int64_t> SampleRows(const AttentionProblem& problem, std::mt19937_64& random, size_t wanted) {
  const AttentionShape& shape = problem.shape();
  const int64_t total = RowCount(problem);
  const auto query_in_some_head = [&](int64_t i) {
    return static_cast<int64_t>(random() % (total / shape.query_length)) * shape.query_length + i;
  };
  std::set<int64_t> chosen = {0, total - 1};
  for (std::vector<int64_t> queries : {problem.results().weight_query_rows, BorderQueries(shape.query_length)}) {
    std::shuffle(queries.begin(), queries.end(), random);
    const size_t limit = chosen.size() + wanted / 3;
    for (int64_t i : queries) {
      if (chosen.size() >= limit) break;
      chosen.insert(query_in_some_head(i));
    }
  }
  while (chosen.size() < wanted) chosen.insert(static_cast<int64_t>(random() % total));
  return chosen;
}

}  // namespace

std::vector<RowPosition> ChooseRows(const AttentionProblem& problem, uint64_t seed, int64_t max_multiply_adds) {
  const AttentionShape& shape = problem.shape();
  const bool all_heads = problem.results().average_weights_over_heads;
  const int64_t total = RowCount(problem);
  const int64_t row_cost = std::max<int64_t>(1, shape.key_length) * (shape.head_dim + shape.value_dim + 8) *
                           (all_heads ? shape.query_heads : 1);
  const auto wanted = std::max<size_t>(kMinRows, static_cast<size_t>(max_multiply_adds / row_cost));
  std::vector<RowPosition> rows;
  if (static_cast<size_t>(total) <= wanted) {
    rows = AllRows(problem);
  } else {
    std::mt19937_64 random(seed);
    for (int64_t row : SampleRows(problem, random, wanted)) rows.push_back(RowAt(problem, row));
  }
  return all_heads ? WithAllHeads(problem, rows) : rows;
}

absl::Status CheckResults(const AttentionProblem& problem, const ProblemValues& values, const ProblemResults& results,
                          int64_t max_multiply_adds) {
  if (absl::Status status = CheckMasks(problem, values, results); !status.ok()) return status;
  std::vector<CheckedRow> rows;
  YardstickErrors errors(problem);
  for (const RowPosition& at : ChooseRows(problem, values.seed, max_multiply_adds)) {
    rows.push_back({at, ComputeOracleRow(problem, values, at)});
    errors.Add(values, at, rows.back().oracle);
  }
  return WithSeed(values, CompareRows(problem, results, rows, errors.ToTolerances()));
}

absl::Status CheckResultsAmong(const AttentionProblem& problem, const ProblemValues& values,
                               const ProblemResults& results, std::span<const ProblemValues> alike) {
  if (absl::Status status = CheckMasks(problem, values, results); !status.ok()) return status;
  std::vector<CheckedRow> rows;
  YardstickErrors errors(problem);
  for (const RowPosition& at : WithAllHeads(problem, AllRows(problem))) {
    rows.push_back({at, ComputeOracleRow(problem, values, at)});
    errors.Add(values, at, rows.back().oracle);
    for (const ProblemValues& other : alike) errors.Add(other, at, ComputeOracleRow(problem, other, at));
  }
  return WithSeed(values, CompareRows(problem, results, rows, errors.ToTolerances()));
}

absl::Status CheckMasks(const AttentionProblem& problem, const ProblemValues& values, const ProblemResults& results) {
  const std::vector<float> output = results.OutputValues(problem);
  for (const RowPosition& at : AllRows(problem)) {
    const std::vector<bool> visible = VisibleKeys(problem, values, at);
    std::string report = MaskedKeysReport(problem, results, at, visible);
    if (report.empty() && std::find(visible.begin(), visible.end(), true) == visible.end()) {
      report = EmptyRowReport(problem, results, at, output);
    }
    if (report.empty()) continue;
    return WithSeed(values,
                    Failure(problem, {absl::StrCat("row [", at.batch, ",", at.head, ",", at.query, "] ", report)}));
  }
  return absl::OkStatus();
}

absl::Status CheckExact(const AttentionProblem& problem, const ProblemValues& values, const ProblemResults& results) {
  RowComparison comparison(problem, results, /*tolerances=*/{});
  for (const RowPosition& at : AllRows(problem)) {
    AddExactRow(problem, {at, ComputeOracleRow(problem, values, at)}, &comparison);
  }
  return WithSeed(values, comparison.ToStatus());
}

}  // namespace attend::testing
