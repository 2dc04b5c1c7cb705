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

// Query, key and value of `problem`, drawn in this order, then rounded to its type.
ProblemValues Generate(const core::AttentionProblem& problem, uint64_t seed, const Fill& query_and_key,
                       const Fill& value);
// Normal numbers in all three.
ProblemValues Generate(const core::AttentionProblem& problem, uint64_t seed);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_GENERATORS_H_
