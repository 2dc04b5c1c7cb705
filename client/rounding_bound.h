// How far a correct answer may be from the exact one: the most that rounding can account for.
#ifndef ATTEND_CLIENT_ROUNDING_BOUND_H_
#define ATTEND_CLIENT_ROUNDING_BOUND_H_

#include <cstdint>
#include <vector>

#include "attend/v1/attention.pb.h"
#include "client/reference_attention.h"

namespace attend::client {

// The types in which a request is computed.
struct ComputationTypes {
  v1::DataType inputs = v1::DATA_TYPE_FLOAT32;  // of query, key and value
  bool bfloat16_products = false;               // compute_type BF16
  v1::DataType output = v1::DATA_TYPE_FLOAT32;
};

// A worst-case bound for one row, by the standard analysis (Higham, Accuracy and Stability of Numerical Algorithms,
// chapter 3): a sum of n products in f32 is off by at most n * 2^-24 times the sum of their magnitudes.
//   scores:    head_dim roundings of product_magnitude, plus that of bf16 products where inputs are rounded to it;
//   weights:   exp turns an error of the scores into a relative one; the denominator adds a rounding per key;
//   output:    the weights' error on sum(weight * |v|), weights rounded to a narrow type for the second product, a
//              rounding per key, and the output's own rounding.
class RoundingBound {
 public:
  RoundingBound(const ReferenceRow& row, const AxisLengths& axes, const ComputationTypes& types);

  // Of output[d], whose exact value is `exact` and whose sum(weight * |v|) is `magnitude`.
  double Output(double exact, double magnitude) const;
  // Of a weight whose exact value is `exact`; 0 for exactly 0, the weight of an excluded key.
  double Weight(double exact) const;
  // Of the logsumexp whose exact value is `exact`.
  double Logsumexp(double exact) const;
  // Of a score, by its product_magnitude and score_magnitude.
  double Score(double product_magnitude, double score_magnitude) const;

 private:
  double head_dim_;
  bool inputs_rounded_;     // to bfloat16, for the products
  double score_error_;      // absolute
  double weight_error_;     // relative
  double sum_error_;        // relative to the magnitude of the weighted sum
  double output_roundoff_;  // relative to the output
  double output_tiny_;      // what the output's type takes as 0
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ROUNDING_BOUND_H_
