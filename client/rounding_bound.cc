#include "client/rounding_bound.h"

#include <cmath>

#include "client/element_rounding.h"

namespace attend::client {
namespace {

constexpr double kUnit = 0x1p-24;
// Roundings that do not grow with the problem: scale, softcap, bias, the subtraction of the maximum, the factor log2(e)
// and a polynomial for exp2.
constexpr double kFewRoundings = 16;
// Subnormal f32 numbers may be taken as 0.
constexpr double kTiny = 0x1p-126;

}  // namespace

RoundingBound::RoundingBound(const ReferenceRow& row, const AxisLengths& axes, const ComputationTypes& types)
    : head_dim_(static_cast<double>(axes.head_dim)),
      inputs_rounded_(types.bfloat16_products && types.inputs != v1::DATA_TYPE_BFLOAT16),
      score_error_(Score(row.product_magnitude, row.score_magnitude)) {
  const double keys = static_cast<double>(row.visible_keys);
  const bool narrow = types.inputs == v1::DATA_TYPE_BFLOAT16 || types.bfloat16_products;
  const double narrow_roundoff = UnitRoundoff(v1::DATA_TYPE_BFLOAT16);
  // Numerator and denominator.
  weight_error_ = std::expm1(2 * score_error_) + (keys + kFewRoundings) * kUnit;
  sum_error_ = weight_error_ + (keys + kFewRoundings) * kUnit;
  if (narrow) sum_error_ += narrow_roundoff;           // the weights as factors of the second product
  if (inputs_rounded_) sum_error_ += narrow_roundoff;  // and the values
  if (types.inputs == v1::DATA_TYPE_FLOAT16) sum_error_ += UnitRoundoff(v1::DATA_TYPE_FLOAT16);
  output_roundoff_ = UnitRoundoff(types.output);
  output_tiny_ = types.output == v1::DATA_TYPE_FLOAT16 ? 0x1p-25 : kTiny;
}

double RoundingBound::Output(double exact, double magnitude) const {
  if (magnitude == 0) return output_tiny_;
  const double before_rounding = sum_error_ * magnitude + kTiny;
  return before_rounding + output_roundoff_ * (std::abs(exact) + before_rounding) + output_tiny_;
}

double RoundingBound::Weight(double exact) const { return exact == 0 ? 0 : weight_error_ * exact + kTiny; }

double RoundingBound::Logsumexp(double exact) const { return weight_error_ + kFewRoundings * kUnit * std::abs(exact); }

double RoundingBound::Score(double product_magnitude, double score_magnitude) const {
  double error =
      (head_dim_ + kFewRoundings) * kUnit * product_magnitude + kFewRoundings * kUnit * (1 + score_magnitude);
  // Both factors of every product are rounded where f32 inputs are multiplied as bf16.
  if (inputs_rounded_) error += 2.01 * UnitRoundoff(v1::DATA_TYPE_BFLOAT16) * product_magnitude;
  return error;
}

}  // namespace attend::client
