#include "tests/conformance/conformance_test.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace attend::testing {

bool SameRow(const core::AttentionProblem& problem, const ProblemResults& a, const ProblemResults& b,
             const RowPosition& at) {
  const core::AttentionShape& shape = problem.shape();
  const core::Strides strides = problem.OutputStrides();
  const int64_t size = core::ElementBytes(problem.type());
  const int64_t place = (at.batch * strides.batch + at.head * strides.head + at.query * strides.row) * size;
  if (std::memcmp(a.output.data() + place, b.output.data() + place, shape.value_dim * size) != 0) return false;
  const int64_t row = RowIndex(shape, at.batch, at.head, at.query);
  if (problem.results().logsumexp &&
      std::bit_cast<uint32_t>(a.logsumexp[row]) != std::bit_cast<uint32_t>(b.logsumexp[row])) {
    return false;
  }
  if (!problem.results().weights || shape.key_length == 0) return true;
  const int64_t first = row * shape.key_length;
  return std::memcmp(&a.weights[first], &b.weights[first], shape.key_length * sizeof(float)) == 0;
}

}  // namespace attend::testing
