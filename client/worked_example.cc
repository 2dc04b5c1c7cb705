#include "client/worked_example.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attend::client {
namespace {

TensorView RowsView(const TokenRow<DimRow<float>>& rows) {
  return FloatTensorView({1, 1, kExampleTokens, kExampleDims},
                         std::span(rows.front().data(), kExampleTokens * kExampleDims));
}

// Copies the elements of `tensor`, after comparing each with what it should be.
template <size_t kSize>
absl::Status Take(const char* name, const Tensor& tensor, const std::array<double, kSize>& expected,
                  std::array<double, kSize>& elements, double& largest_difference) {
  if (tensor.floats().size() != kSize) {
    return absl::InternalError(
        absl::StrCat("the service's ", name, " have ", tensor.floats().size(), " float32 elements, not ", kSize));
  }
  for (size_t i = 0; i < kSize; ++i) {
    elements[i] = tensor.floats()[i];
    const double difference = std::abs(elements[i] - expected[i]);
    if (!(difference <= kExampleTolerance)) {
      return absl::InternalError(absl::StrFormat("the service's %s are wrong: element %d is %.6f, must be %.6f", name,
                                                 i, elements[i], expected[i]));
    }
    largest_difference = std::max(largest_difference, difference);
  }
  return absl::OkStatus();
}

}  // namespace

WorkedSteps Work(const WorkedExample& example) {
  WorkedSteps steps;
  steps.root = std::sqrt(kExampleDims);
  double denominator = 0;
  for (int token = 0; token < kExampleTokens; ++token) {
    for (int dim = 0; dim < kExampleDims; ++dim) {
      steps.dot_products[token] += double{example.query[dim]} * double{example.key[token][dim]};
    }
    steps.scores[token] = steps.dot_products[token] / steps.root;
    steps.weights[token] = std::exp(steps.scores[token]);
    denominator += steps.weights[token];
  }
  for (int token = 0; token < kExampleTokens; ++token) {
    steps.weights[token] /= denominator;
    for (int dim = 0; dim < kExampleDims; ++dim) {
      steps.output[dim] += steps.weights[token] * double{example.value[token][dim]};
    }
  }
  return steps;
}

AttendRequest ToRequest(const WorkedExample& example) {
  AttendRequest request;
  request.query = FloatTensorView({1, 1, 1, kExampleDims}, example.query);
  request.key = RowsView(example.key);
  request.value = RowsView(example.value);
  request.results.set_weights(true);
  return request;
}

absl::StatusOr<WorkedAnswer> Compare(const WorkedSteps& steps, const AttendResult& result) {
  WorkedAnswer answer;
  for (const absl::Status& status :
       {Take("weights", result.weights, steps.weights, answer.weights, answer.largest_difference),
        Take("outputs", result.output, steps.output, answer.output, answer.largest_difference)}) {
    if (!status.ok()) return status;
  }
  for (const double weight : answer.weights) answer.weight_sum += weight;
  if (std::abs(answer.weight_sum - 1) > kExampleTolerance) {
    return absl::InternalError(absl::StrFormat("the service's weights sum to %.6f, must be 1", answer.weight_sum));
  }
  return answer;
}

}  // namespace attend::client
