// A calculation small enough to follow by hand: one query, three tokens, four dimensions.
#ifndef ATTEND_CLIENT_WORKED_EXAMPLE_H_
#define ATTEND_CLIENT_WORKED_EXAMPLE_H_

#include <array>

#include "client/attend_client.h"

namespace attend::client {

inline constexpr int kExampleTokens = 3;
inline constexpr int kExampleDims = 4;

template <typename Element>
using TokenRow = std::array<Element, kExampleTokens>;
template <typename Element>
using DimRow = std::array<Element, kExampleDims>;

struct WorkedExample {
  TokenRow<const char*> tokens = {"server", "request", "it"};
  DimRow<const char*> dimensions = {"machine", "message", "subject", "capacity"};
  DimRow<float> query = {1, 0, 0.5F, 1};
  TokenRow<DimRow<float>> key = {{{1, 0, 0.8F, 1}, {0, 1, 0.2F, 0}, {0.2F, 0.2F, 0.4F, 0.1F}}};
  TokenRow<DimRow<float>> value = {{{0.9F, 0.1F, 0.7F, 0.8F}, {0.1F, 0.9F, 0.2F, 0.1F}, {0.3F, 0.3F, 0.5F, 0.2F}}};
};

// Every step, in double precision.
struct WorkedSteps {
  TokenRow<double> dot_products = {};  // query . key
  double root = 0;                     // sqrt(head_dim)
  TokenRow<double> scores = {};        // dot_products / root
  TokenRow<double> weights = {};       // softmax of scores
  DimRow<double> output = {};          // weights . value
};
WorkedSteps Work(const WorkedExample& example);

// The example as a request for output and weights; its tensors are those of `example`.
AttendRequest ToRequest(const WorkedExample& example);

// What the service made of it, compared with the steps.
struct WorkedAnswer {
  TokenRow<double> weights = {};
  DimRow<double> output = {};
  double weight_sum = 0;
  double largest_difference = 0;  // between steps and service, over weights and output
};

// How far apart service and steps may be: float32 sums of a few numbers of size 1.
inline constexpr double kExampleTolerance = 1e-5;

// INTERNAL, with what was expected and what came, if `result` has other shapes than asked for, differs from `steps` by
// more than kExampleTolerance anywhere (or is not a number), or has weights whose sum differs from 1 by more.
absl::StatusOr<WorkedAnswer> Compare(const WorkedSteps& steps, const AttendResult& result);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_WORKED_EXAMPLE_H_
