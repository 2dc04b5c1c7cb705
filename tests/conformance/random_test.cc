// Problems drawn at random: what no table thought of. A failure prints the problem and its seed.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/conformance_test.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;

// Each test computes this many problems.
constexpr int kProblemsPerTest = 12;
constexpr int kTests = 40;
constexpr int64_t kMaxMultiplyAdds = int64_t{1} << 25;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

  template <typename T, size_t kCount>
  T From(const T (&choices)[kCount]) {
    return choices[Between(0, kCount - 1)];
  }

  int64_t Length() {
    constexpr int64_t kBorders[] = {0, 16, 64, 128, 256, 512, 1024};
    if (OneIn(3)) return Between(1, 300);
    return std::max<int64_t>(0, From(kBorders) + Between(-2, 2));
  }

  int64_t Dim() {
    constexpr int64_t kUsual[] = {16, 32, 64, 80, 96, 128, 256};
    return OneIn(2) ? Between(1, 140) : From(kUsual);
  }

 private:
  std::mt19937_64 random_;
};

AttentionShape DrawShape(Draw& draw) {
  constexpr int64_t kGroups[] = {1, 1, 2, 3, 7, 8};
  AttentionShape shape;
  do {
    shape.batch = draw.Between(1, 3);
    shape.kv_heads = draw.Between(1, 3);
    shape.query_heads = shape.kv_heads * draw.From(kGroups);
    shape.query_length = draw.OneIn(5) ? 1 : draw.Length();
    shape.key_length = draw.OneIn(3) ? shape.query_length : draw.Length();
    shape.head_dim = draw.Dim();
    shape.value_dim = draw.OneIn(2) ? shape.head_dim : draw.Dim();
  } while (shape.batch * shape.query_heads * shape.query_length * shape.key_length *
               (shape.head_dim + shape.value_dim) >
           kMaxMultiplyAdds);
  return shape;
}

AttentionOptions DrawOptions(const AttentionShape& shape, Draw& draw) {
  AttentionOptions options;
  options.layout = draw.OneIn(2) ? Layout::kBHND : Layout::kBNHD;
  options.causal = draw.From(kCausalAlignments);
  if (draw.OneIn(3)) options.scale = static_cast<float>(draw.Between(-100, 100)) / 100;
  if (draw.OneIn(3)) {
    for (int64_t b = 0; b < shape.batch; ++b) options.key_lengths.push_back(draw.Between(0, shape.key_length));
  }
  return options;
}

Fill DrawFill(ElementType type, Draw& draw) {
  switch (draw.Between(0, 5)) {
    case 0:
      return Integers(2);
    case 1:
      return Specials(type);
    case 2:
      return Normal(0.5, 2);
    default:
      return Normal();
  }
}

class RandomProblems : public ConformanceTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomProblems, ::testing::Range(0, kTests));

TEST_P(RandomProblems, AreRight) {
  for (int n = 0; n < kProblemsPerTest; ++n) {
    const uint64_t seed = 10000 + 100 * GetParam() + n;
    Draw draw(seed);
    const AttentionShape shape = DrawShape(draw);
    const ElementType type = draw.From(kElementTypes);
    const core::ResultSelection results = {.weights = draw.OneIn(2), .logsumexp = draw.OneIn(2)};
    const auto problem = MakeProblem(shape, type, DrawOptions(shape, draw), results);
    const Fill query_and_key = DrawFill(type, draw);
    ExpectRight(problem, Generate(problem, seed, query_and_key, DrawFill(type, draw)), int64_t{1} << 20);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace attend::testing
