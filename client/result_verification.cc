#include "client/result_verification.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/element_rounding.h"
#include "client/reference_attention.h"
#include "client/rounding_bound.h"

namespace attend::client {
namespace {

double ElementAt(const Tensor& tensor, int64_t index) {
  const std::byte* element = tensor.data().data() + index * ElementBytes(tensor.data_type());
  if (tensor.data_type() == v1::DATA_TYPE_FLOAT32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  return tensor.data_type() == v1::DATA_TYPE_BFLOAT16 ? BFloat16ToFloat(bits) : Float16ToFloat(bits);
}

double Difference(double got, double exact) {
  if (std::isnan(got) && std::isnan(exact)) return 0;
  if (got == exact) return 0;  // infinities too
  const double error = std::abs(got - exact);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

// Keeps the worst element of one result.
class WorstOf {
 public:
  void Compare(double got, double exact, double bound, absl::string_view result, const std::vector<int64_t>& index) {
    const double error = Difference(got, exact);
    // A bound of 0 (excluded keys) allows no error; equality is not worth a division by 0.
    const double share = error == 0 ? 0 : error / bound;
    if (worst_ && !(share > share_)) return;
    share_ = share;
    worst_ = WorstElement{.name = absl::StrCat(result, "[", absl::StrJoin(index, ", "), "]"),
                          .got = got,
                          .exact = exact,
                          .error = error,
                          .bound = bound};
  }
  const std::optional<WorstElement>& worst() const { return worst_; }

 private:
  std::optional<WorstElement> worst_;
  double share_ = 0;
};

absl::Status CheckTensor(absl::string_view name, const Tensor& tensor, const std::vector<int64_t>& shape,
                         v1::DataType type) {
  if (tensor.shape() == shape && tensor.data_type() == type) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the answer's ", name, " is ", DataTypeName(tensor.data_type()), " [",
                                          absl::StrJoin(tensor.shape(), ", "), "], must be ", DataTypeName(type), " [",
                                          absl::StrJoin(shape, ", "), "]"));
}

ComputationTypes TypesOf(const AttendRequest& request) {
  ComputationTypes types{.inputs = request.query.data_type,
                         .bfloat16_products = request.options.compute_type() == v1::COMPUTE_TYPE_BF16,
                         .output = request.options.output_type()};
  if (types.output == v1::DATA_TYPE_UNSPECIFIED) types.output = types.inputs;
  return types;
}

// Some numbers in [0, total): the first, the last and others at random.
std::set<int64_t> ChooseNumbers(int64_t total, const VerificationOptions& options) {
  std::set<int64_t> chosen;
  if (options.rows == 0 || options.rows >= total) {
    for (int64_t number = 0; number < total; ++number) chosen.insert(number);
    return chosen;
  }
  chosen = {0, total - 1};
  std::mt19937_64 random(options.seed);
  std::uniform_int_distribution<int64_t> any(0, total - 1);
  while (static_cast<int64_t>(chosen.size()) < options.rows) chosen.insert(any(random));
  return chosen;
}

class RowComparison {
 public:
  RowComparison(const AttendRequest& request, const AttendResult& result, ReferenceAttention reference)
      : types_(TypesOf(request)),
        layout_(request.options.layout()),
        averaged_(request.results.average_weights_over_heads()),
        rows_(request.results.weight_query_rows().begin(), request.results.weight_query_rows().end()),
        result_(result),
        reference_(std::move(reference)),
        axes_(reference_.axes()) {
    for (size_t r = 0; r < rows_.size(); ++r) place_of_row_[rows_[r]] = static_cast<int64_t>(r);
  }

  int64_t total_rows() const { return reference_.total_rows(); }

  absl::Status CheckShapes() const;

  // The numbers of the rows to compare: where weights or scores are of some rows alone, as many of those besides.
  std::set<int64_t> ChooseRows(const VerificationOptions& options) const {
    std::set<int64_t> chosen = ChooseNumbers(total_rows(), options);
    for (const int64_t number :
         ChooseNumbers(axes_.batch * axes_.query_heads * static_cast<int64_t>(rows_.size()), options)) {
      const int64_t count = static_cast<int64_t>(rows_.size());
      chosen.insert(number / count * axes_.query_length + rows_[static_cast<size_t>(number % count)]);
    }
    return chosen;
  }

  void Compare(int64_t number) {
    const RowPlace at = reference_.Place(number);
    const ReferenceRow row = reference_.Compute(at.batch, at.head, at.query);
    const RoundingBound bound(row, axes_, types_);
    if (result_.output.present()) CompareOutput(row, bound, at);
    if (const std::optional<int64_t> r = MatrixRow(at.query)) {
      const int64_t start = ((at.batch * axes_.query_heads + at.head) * MatrixRows() + *r) * axes_.key_length;
      if (result_.scores.present()) CompareScores(row, bound, at, start);
      if (result_.weights.present() && !averaged_) CompareWeights(row, bound, at, start);
      if (result_.weights.present() && averaged_) CompareAverage(at, *r);
    }
    if (result_.logsumexp.present()) {
      logsumexp_.Compare(ElementAt(result_.logsumexp, number), row.logsumexp,
                         row.visible_keys == 0 ? 0 : bound.Logsumexp(row.logsumexp), "logsumexp",
                         ragged() ? Index{at.head, PackedRow(at)} : Index{at.batch, at.head, at.query});
    }
  }

  std::vector<WorstElement> worst() const {
    std::vector<WorstElement> worst;
    for (const WorstOf* result : {&output_, &weights_, &scores_, &logsumexp_}) {
      if (result->worst()) worst.push_back(*result->worst());
    }
    return worst;
  }

 private:
  using Index = std::vector<int64_t>;

  bool ragged() const { return layout_ == v1::LAYOUT_THD; }
  int64_t PackedRow(const RowPlace& at) const { return reference_.FirstQuery(at.batch) + at.query; }

  // The rows that weights and scores have, and which of them a query is, if any.
  int64_t MatrixRows() const { return rows_.empty() ? axes_.query_length : static_cast<int64_t>(rows_.size()); }
  std::optional<int64_t> MatrixRow(int64_t query) const {
    if (rows_.empty()) return query;
    const auto found = place_of_row_.find(query);
    return found == place_of_row_.end() ? std::nullopt : std::optional(found->second);
  }

  void CompareOutput(const ReferenceRow& row, const RoundingBound& bound, const RowPlace& at) {
    const RowStrides strides = LayoutStrides(layout_, axes_.query_heads, axes_.query_length, axes_.value_dim);
    const int64_t start = strides.batch * at.batch + strides.head * at.head + strides.row * PackedRow(at);
    for (int64_t d = 0; d < axes_.value_dim; ++d) {
      const double exact = row.output[static_cast<size_t>(d)];
      const double magnitude = row.output_magnitude[static_cast<size_t>(d)];
      const Index index = ragged()                     ? Index{PackedRow(at), at.head, d}
                          : layout_ == v1::LAYOUT_BNHD ? Index{at.batch, at.query, at.head, d}
                                                       : Index{at.batch, at.head, at.query, d};
      output_.Compare(ElementAt(result_.output, start + d), exact,
                      row.visible_keys == 0 ? 0 : bound.Output(exact, magnitude), "output", index);
    }
  }

  void CompareWeights(const ReferenceRow& row, const RoundingBound& bound, const RowPlace& at, int64_t start) {
    for (int64_t j = 0; j < axes_.key_length; ++j) {
      const double exact = row.weights[static_cast<size_t>(j)];
      weights_.Compare(ElementAt(result_.weights, start + j), exact, bound.Weight(exact), "weights",
                       {at.batch, at.head, *MatrixRow(at.query), j});
    }
  }

  void CompareScores(const ReferenceRow& row, const RoundingBound& bound, const RowPlace& at, int64_t start) {
    for (int64_t j = 0; j < axes_.key_length; ++j) {
      const auto key = static_cast<size_t>(j);
      scores_.Compare(ElementAt(result_.scores, start + j), row.scores[key],
                      bound.Score(row.product_magnitudes[key], row.score_magnitudes[key]), "scores",
                      {at.batch, at.head, *MatrixRow(at.query), j});
    }
  }

  // The mean over the heads: once for all of them.
  void CompareAverage(const RowPlace& at, int64_t r) {
    const int64_t start = (at.batch * MatrixRows() + r) * axes_.key_length;
    if (!averages_compared_.insert(start).second) return;
    const double heads = static_cast<double>(axes_.query_heads);
    std::vector<double> means(static_cast<size_t>(axes_.key_length));
    std::vector<double> bounds = means;
    for (int64_t h = 0; h < axes_.query_heads; ++h) {
      const ReferenceRow row = reference_.Compute(at.batch, h, at.query);
      const RoundingBound bound(row, axes_, types_);
      for (size_t j = 0; j < means.size(); ++j) {
        means[j] += row.weights[j] / heads;
        bounds[j] += bound.Weight(row.weights[j]) / heads;
      }
    }
    // Besides, a rounding for each addition and for the division.
    constexpr double kUnit = 0x1p-24;
    for (size_t j = 0; j < means.size(); ++j) {
      const auto key = static_cast<int64_t>(j);
      weights_.Compare(ElementAt(result_.weights, start + key), means[j], bounds[j] + (heads + 1) * kUnit * means[j],
                       "weights", {at.batch, r, key});
    }
  }

  const ComputationTypes types_;
  const v1::Layout layout_;
  const bool averaged_;
  const std::vector<int64_t> rows_;  // of weights and scores; empty: all
  std::unordered_map<int64_t, int64_t> place_of_row_;
  const AttendResult& result_;
  const ReferenceAttention reference_;
  const AxisLengths axes_;
  std::unordered_set<int64_t> averages_compared_;
  WorstOf output_;
  WorstOf weights_;
  WorstOf scores_;
  WorstOf logsumexp_;
};

absl::Status RowComparison::CheckShapes() const {
  for (const int64_t row : rows_) {
    if (row >= 0 && row < axes_.query_length) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("weight_query_rows: one is ", row, ", must be in [0, ", axes_.query_length, ")"));
  }
  const Index matrix = {axes_.batch, axes_.query_heads, MatrixRows(), axes_.key_length};
  struct Wanted {
    const char* name;
    const Tensor& tensor;
    Index shape;
    v1::DataType type;
  };
  const Wanted results[] = {
      {"output", result_.output,
       LayoutShape(layout_, axes_.batch, axes_.query_heads, axes_.query_length, axes_.value_dim), types_.output},
      {"weights", result_.weights, averaged_ ? Index{axes_.batch, MatrixRows(), axes_.key_length} : matrix,
       v1::DATA_TYPE_FLOAT32},
      {"scores", result_.scores, matrix, v1::DATA_TYPE_FLOAT32},
      {"logsumexp", result_.logsumexp,
       ragged() ? Index{axes_.query_heads, axes_.query_length}
                : Index{axes_.batch, axes_.query_heads, axes_.query_length},
       v1::DATA_TYPE_FLOAT32}};
  absl::Status status;
  for (const Wanted& wanted : results) {
    if (wanted.tensor.present()) status.Update(CheckTensor(wanted.name, wanted.tensor, wanted.shape, wanted.type));
  }
  if (result_.scores.present() && reference_.stage() == v1::SCORE_STAGE_UNSPECIFIED) {
    status.Update(absl::DataLossError("the answer has scores, which were not asked for"));
  }
  return status;
}

}  // namespace

bool Verification::passed() const {
  return std::all_of(worst.begin(), worst.end(), [](const WorstElement& element) { return element.within(); });
}

std::string Verification::Text() const {
  std::string text = absl::StrCat(rows, " of ", total_rows, " rows");
  if (worst.empty()) return text;
  absl::StrAppend(&text, passed() ? ", nothing beyond rounding; closest to its bound: " : ": ");
  absl::string_view separator;
  for (const WorstElement& element : worst) {
    if (element.within() && !passed()) continue;
    if (element.within()) {
      absl::StrAppendFormat(&text, "%s%s off by %.2g of %.2g", separator, element.name, element.error, element.bound);
    } else {
      absl::StrAppendFormat(&text, "%s%s is %.9g, must be %.9g: off by %.3g, rounding accounts for %.3g", separator,
                            element.name, element.got, element.exact, element.error, element.bound);
    }
    separator = "; ";
  }
  return text;
}

absl::StatusOr<Verification> VerifyResult(const AttendRequest& request, const AttendResult& result,
                                          const VerificationOptions& options) {
  auto reference = ReferenceAttention::Create(request);
  if (!reference.ok()) return reference.status();
  RowComparison comparison(request, result, *std::move(reference));
  if (const absl::Status status = comparison.CheckShapes(); !status.ok()) return status;
  Verification verification;
  verification.total_rows = comparison.total_rows();
  for (const int64_t row : comparison.ChooseRows(options)) {
    comparison.Compare(row);
    ++verification.rows;
  }
  verification.worst = comparison.worst();
  return verification;
}

}  // namespace attend::client
