#include "client/result_verification.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>
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

// Which rows are looked at, as numbers in [0, total).
std::vector<int64_t> ChooseRows(int64_t total, const VerificationOptions& options) {
  std::vector<int64_t> rows;
  if (options.rows == 0 || options.rows >= total) {
    for (int64_t row = 0; row < total; ++row) rows.push_back(row);
    return rows;
  }
  std::set<int64_t> chosen = {0, total - 1};
  std::mt19937_64 random(options.seed);
  std::uniform_int_distribution<int64_t> any(0, total - 1);
  while (static_cast<int64_t>(chosen.size()) < options.rows) chosen.insert(any(random));
  rows.assign(chosen.begin(), chosen.end());
  return rows;
}

class RowComparison {
 public:
  RowComparison(const AttendRequest& request, const AttendResult& result, ReferenceAttention reference)
      : types_(TypesOf(request)),
        layout_(request.options.layout()),
        result_(result),
        reference_(std::move(reference)),
        axes_(reference_.axes()) {}

  int64_t total_rows() const { return axes_.batch * axes_.query_heads * axes_.query_length; }

  absl::Status CheckShapes() const {
    absl::Status status;
    if (result_.output.present()) {
      status.Update(CheckTensor(
          "output", result_.output,
          LayoutShape(layout_, axes_.batch, axes_.query_heads, axes_.query_length, axes_.value_dim), types_.output));
    }
    if (result_.weights.present()) {
      status.Update(CheckTensor("weights", result_.weights,
                                {axes_.batch, axes_.query_heads, axes_.query_length, axes_.key_length},
                                v1::DATA_TYPE_FLOAT32));
    }
    if (result_.logsumexp.present()) {
      status.Update(CheckTensor("logsumexp", result_.logsumexp, {axes_.batch, axes_.query_heads, axes_.query_length},
                                v1::DATA_TYPE_FLOAT32));
    }
    return status;
  }

  void Compare(int64_t number) {
    const int64_t i = number % axes_.query_length;
    const int64_t h = number / axes_.query_length % axes_.query_heads;
    const int64_t b = number / axes_.query_length / axes_.query_heads;
    const ReferenceRow row = reference_.Compute(b, h, i);
    const RoundingBound bound(row, axes_, types_);
    if (result_.output.present()) CompareOutput(row, bound, b, h, i);
    for (int64_t j = 0; result_.weights.present() && j < axes_.key_length; ++j) {
      const double exact = row.weights[static_cast<size_t>(j)];
      weights_.Compare(ElementAt(result_.weights, number * axes_.key_length + j), exact, bound.Weight(exact), "weights",
                       {b, h, i, j});
    }
    if (result_.logsumexp.present()) {
      logsumexp_.Compare(ElementAt(result_.logsumexp, number), row.logsumexp, bound.Logsumexp(row.logsumexp),
                         "logsumexp", {b, h, i});
    }
  }

  std::vector<WorstElement> worst() const {
    std::vector<WorstElement> worst;
    for (const WorstOf* result : {&output_, &weights_, &logsumexp_}) {
      if (result->worst()) worst.push_back(*result->worst());
    }
    return worst;
  }

 private:
  void CompareOutput(const ReferenceRow& row, const RoundingBound& bound, int64_t b, int64_t h, int64_t i) {
    const RowStrides strides = LayoutStrides(layout_, axes_.query_heads, axes_.query_length, axes_.value_dim);
    for (int64_t d = 0; d < axes_.value_dim; ++d) {
      const double exact = row.output[static_cast<size_t>(d)];
      const double magnitude = row.output_magnitude[static_cast<size_t>(d)];
      const bool heads_first = layout_ != v1::LAYOUT_BNHD;
      output_.Compare(ElementAt(result_.output, strides.batch * b + strides.head * h + strides.row * i + d), exact,
                      row.visible_keys == 0 ? 0 : bound.Output(exact, magnitude), "output",
                      {b, heads_first ? h : i, heads_first ? i : h, d});
    }
  }

  const ComputationTypes types_;
  const v1::Layout layout_;
  const AttendResult& result_;
  const ReferenceAttention reference_;
  const AxisLengths axes_;
  WorstOf output_;
  WorstOf weights_;
  WorstOf logsumexp_;
};

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
  if (request.results.weight_query_rows_size() > 0 || request.results.average_weights_over_heads() ||
      result.scores.present()) {
    return absl::UnimplementedError("scores, and weights of some rows or averaged over heads, are not verified");
  }
  auto reference = ReferenceAttention::Create(request);
  if (!reference.ok()) return reference.status();
  RowComparison comparison(request, result, *std::move(reference));
  if (const absl::Status status = comparison.CheckShapes(); !status.ok()) return status;
  Verification verification;
  verification.total_rows = comparison.total_rows();
  for (const int64_t row : ChooseRows(verification.total_rows, options)) {
    comparison.Compare(row);
    ++verification.rows;
  }
  verification.worst = comparison.worst();
  return verification;
}

}  // namespace attend::client
