// Problems drawn at random: any legal shape, options and results, all from one seed.
#ifndef ATTEND_TESTS_TESTING_RANDOM_PROBLEM_H_
#define ATTEND_TESTS_TESTING_RANDOM_PROBLEM_H_

#include <cstdint>
#include <random>
#include <vector>

#include "core/attention_problem.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

// Choices, one after the other, from a seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

  template <typename T, size_t kN>
  T From(const T (&choices)[kN]) {
    return choices[Between(0, kN - 1)];
  }
  template <typename T>
  T From(const std::vector<T>& choices) {
    return choices[Between(0, static_cast<int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

// A shape of [batch, query_heads, query_length, key_length] that broadcasts to it: of a rank from 2 to 4, each axis
// whole or 1.
std::vector<int64_t> DrawBroadcastShape(const core::AttentionShape& shape, Draw& draw);
// `count` + 1 starts of sequences, from 0 to `total`, some of them empty.
std::vector<int64_t> DrawStarts(int64_t count, int64_t total, Draw& draw);

// The problem of `seed`, of at most `max_multiply_adds`. Every option and result is drawn, alone and with others;
// lengths lie around the borders of tiles. All numbers are finite, but for -inf in biases and sinks.
ProblemInstance DrawProblem(uint64_t seed, int64_t max_multiply_adds);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_RANDOM_PROBLEM_H_
