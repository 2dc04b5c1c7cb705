// attend demo: the worked example, step by step. Dot products and scores are worked out here, weights and output come
// from the service and are checked against the steps.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands.h"
#include "client/worked_example.h"

namespace attend::client {
namespace {

constexpr int kLabelWidth = 18;
constexpr int kBarWidth = 40;  // of a weight of 1

// "  server              1.0000    0.0000    0.8000    1.0000"
template <typename Row>
std::string NumberRow(absl::string_view label, const Row& numbers) {
  std::string line = absl::StrFormat("  %-*s", kLabelWidth, label);
  for (const auto number : numbers) absl::StrAppendFormat(&line, "%10.4f", number);
  return line + "\n";
}

std::string DimensionHeader(const WorkedExample& example, absl::string_view label) {
  std::string line = absl::StrFormat("  %-*s", kLabelWidth, label);
  for (const char* dimension : example.dimensions) absl::StrAppendFormat(&line, "%10s", dimension);
  return line + "\n";
}

std::string Inputs(const WorkedExample& example) {
  std::string text = DimensionHeader(example, "");
  absl::StrAppend(&text, NumberRow("query", example.query));
  for (int token = 0; token < kExampleTokens; ++token) {
    absl::StrAppend(&text, NumberRow(absl::StrCat("key of ", example.tokens[token]), example.key[token]));
  }
  for (int token = 0; token < kExampleTokens; ++token) {
    absl::StrAppend(&text, NumberRow(absl::StrCat("value of ", example.tokens[token]), example.value[token]));
  }
  return text;
}

// "1 x 1 + 0 x 0 + 0.5 x 0.8 + 1 x 1"
std::string Products(const DimRow<float>& query, const DimRow<float>& key) {
  std::string text;
  for (int dim = 0; dim < kExampleDims; ++dim) {
    absl::StrAppendFormat(&text, "%s%g x %g", dim == 0 ? "" : " + ", query[dim], key[dim]);
  }
  return text;
}

std::string DotProductsAndScores(const WorkedExample& example, const WorkedSteps& steps) {
  std::string text = "\n1. Dot products: what the query and each key have in common\n";
  for (int token = 0; token < kExampleTokens; ++token) {
    absl::StrAppendFormat(&text, "  %-10s%-42s = %7.4f\n", example.tokens[token],
                          Products(example.query, example.key[token]), steps.dot_products[token]);
  }
  absl::StrAppendFormat(&text, "\n2. Scores: divided by sqrt(%d) = %.4f, to stay in scale in any dimension\n",
                        kExampleDims, steps.root);
  for (int token = 0; token < kExampleTokens; ++token) {
    absl::StrAppendFormat(&text, "  %-10s%.4f / %.4f = %7.4f\n", example.tokens[token], steps.dot_products[token],
                          steps.root, steps.scores[token]);
  }
  return text;
}

std::string WeightsAndOutput(const WorkedExample& example, const WorkedAnswer& answer) {
  std::string text = "\n3. Weights: softmax of the scores, from the service\n";
  for (int token = 0; token < kExampleTokens; ++token) {
    const int bar = static_cast<int>(std::lround(answer.weights[token] * kBarWidth));
    absl::StrAppendFormat(&text, "  %-10s%7.4f  %s\n", example.tokens[token], answer.weights[token],
                          std::string(bar, '#'));
  }
  absl::StrAppendFormat(&text, "  %-10s%7.4f\n", "sum", answer.weight_sum);
  absl::StrAppend(&text, "\n4. Output: the values, each times its weight, summed, from the service\n",
                  DimensionHeader(example, ""));
  for (int token = 0; token < kExampleTokens; ++token) {
    DimRow<double> product = {};
    for (int dim = 0; dim < kExampleDims; ++dim)
      product[dim] = answer.weights[token] * double{example.value[token][dim]};
    absl::StrAppend(&text,
                    NumberRow(absl::StrFormat("%.4f x %s", answer.weights[token], example.tokens[token]), product));
  }
  return absl::StrCat(text, NumberRow("output", answer.output));
}

absl::Status RunDemo(const Connection& connection) {
  const absl::StatusOr<std::unique_ptr<Client>> client = connection.Connect();
  if (!client.ok()) return client.status();
  const WorkedExample example;
  const WorkedSteps steps = Work(example);
  const absl::StatusOr<AttendResult> result = (*client)->Attend(ToRequest(example), connection.Call());
  if (!result.ok()) return result.status();
  std::cout << "Attention by hand: one query looks at three tokens\n\n"
            << Inputs(example) << DotProductsAndScores(example, steps) << std::flush;
  const absl::StatusOr<WorkedAnswer> answer = Compare(steps, *result);
  if (!answer.ok()) return answer.status();
  std::cout << WeightsAndOutput(example, *answer)
            << absl::StrFormat("\nThe weights sum to %.4f. Service and steps agree to within %.0e.\n",
                               answer->weight_sum, answer->largest_difference);
  return absl::OkStatus();
}

}  // namespace

void AddDemoCommand(Commands& commands) {
  commands.Add("demo", "Shows attention step by step on an example small enough to follow by hand", RunDemo);
}

}  // namespace attend::client
