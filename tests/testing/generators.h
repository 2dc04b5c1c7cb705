// Tensors to compute with, each made from a seed alone.
#ifndef ATTEND_TESTS_TESTING_GENERATORS_H_
#define ATTEND_TESTS_TESTING_GENERATORS_H_

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "core/attention_problem.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// A source of numbers.
using Fill = std::function<float(std::mt19937_64&)>;

// Normal numbers.
Fill Normal(double mean = 0, double deviation = 1);
// Whole numbers in [-largest, largest]: dot products of such are exact, whatever the order of their sum.
Fill Integers(int largest);
// Numbers at the edges of the type that leave scores small: signed zeros, ones, subnormals, the smallest normal ones,
// powers of two.
Fill Specials(core::ElementType type);
Fill Constant(float value);
// `number` in one draw of `n`, else what `fill` draws.
Fill OneIn(int n, float number, Fill fill);

// What the tensors of a problem are made of.
struct Fills {
  Fill query_and_key = Normal();
  Fill value = Normal();
  Fill bias = Normal();
  Fill mask = OneIn(4, 0, Constant(1));  // 0 is false, anything else true
};

// Query, key, value, bias and mask of `problem`, drawn in this order, each rounded to its type.
ProblemValues Generate(const core::AttentionProblem& problem, uint64_t seed, const Fills& fills = {});
ProblemValues Generate(const core::AttentionProblem& problem, uint64_t seed, const Fill& query_and_key,
                       const Fill& value);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_GENERATORS_H_
