// Every property on every instruction set that this processor and this build have.
#include "core/row_products.h"

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/packing_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};
constexpr int kDims[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 80, 100, 128, 300};
constexpr int kMaxRows = 16;

class RowProductsTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, RowProductsTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

std::vector<float> Expand(const SourceRows& rows) {
  std::vector<float> expanded(rows.count * ExpandedDim(rows.dim));
  ExpandRows(rows, expanded.data());
  return expanded;
}

// Scores of `rows` queries, in an array with a stride of its own, whose other elements must stay.
std::vector<float> Scores(const Source& queries, int rows, const SourceRows& keys, const SourceRows& following) {
  const int64_t stride = keys.count + 3;
  std::vector<float> scores(rows * stride, 123);
  ScoreKeys(Expand(queries.rows).data(), keys, following, {.first = scores.data(), .stride = stride, .rows = rows});
  std::vector<float> compact;
  for (int i = 0; i < rows; ++i) {
    compact.insert(compact.end(), &scores[i * stride], &scores[i * stride] + keys.count);
    for (int64_t j = keys.count; j < stride; ++j) EXPECT_EQ(scores[i * stride + j], 123);
  }
  return compact;
}

std::vector<float> Sums(const std::vector<float>& weights, int rows, const SourceRows& values,
                        const SourceRows& following) {
  std::vector<float> expanded(rows * ExpandedDim(values.dim));
  std::vector<float> copy = weights;
  AddWeightedValues({.first = copy.data(), .stride = values.count, .rows = rows}, values, following, expanded.data());
  std::vector<float> sums(rows * values.dim);
  for (int i = 0; i < rows; ++i) {
    RestoreRow(&expanded[i * ExpandedDim(values.dim)], values.dim, values.type, &sums[i * values.dim]);
  }
  return sums;
}

SourceRows Part(SourceRows rows, int64_t begin, int64_t count) {
  rows.first = rows.row(begin);
  rows.count = count;
  return rows;
}

TEST_P(RowProductsTest, ExpandedRowsAreRestored) {
  for (const ElementType type : kTypes) {
    for (const int dim : kDims) {
      const Source source(type, 1, dim, dim, dim);
      std::vector<float> restored(dim + 1, 123);
      RestoreRow(Expand(source.rows).data(), dim, type, restored.data());
      for (int d = 0; d < dim; ++d) ASSERT_EQ(restored[d], source.Get(0, d)) << ElementTypeName(type) << " " << dim;
      EXPECT_EQ(restored[dim], 123);
    }
  }
}

// The sum of products of element x of two rows of numbers, and of their sizes.
struct ExactSum {
  double sum = 0;
  double size = 0;

  void Add(float a, float b) {
    const double product = double{a} * b;
    sum += product;
    size += std::abs(product);
  }
};

// Calls check(type, dim) for all of them.
template <class Check>
void ForEachTypeAndDim(const Check& check) {
  for (const ElementType type : kTypes) {
    for (const int dim : kDims) {
      SCOPED_TRACE(absl::StrCat(std::string(ElementTypeName(type)), " dim ", dim));
      check(type, dim);
    }
  }
}

TEST_P(RowProductsTest, ScoresAreDotProducts) {
  ForEachTypeAndDim([](ElementType type, int dim) {
    for (const int64_t count : {1, 4, 7, 64, 67}) {
      const Source queries(type, 5, dim, dim, 1), keys(type, count, dim, dim + 3, 2), values(type, 9, 40, 41, 3);
      const std::vector<float> scores = Scores(queries, 5, keys.rows, values.rows);
      for (int64_t x = 0; x < 5 * count; ++x) {
        ExactSum exact;
        for (int d = 0; d < dim; ++d) exact.Add(queries.Get(x / count, d), keys.Get(x % count, d));
        ASSERT_NEAR(scores[x], exact.sum, 1e-6 * exact.size) << x << " of " << count << " keys";
      }
    }
  });
}

TEST_P(RowProductsTest, SumsAreOfWeightedValues) {
  ForEachTypeAndDim([](ElementType type, int dim) {
    for (const int count : {1, 31, 32, 70}) {
      const Source weights(ElementType::kFloat32, 7, count, count, 1);
      const Source values(type, count, dim, dim + 1, 2), keys(type, 200, 17, 30, 3);
      const std::vector<float> sums = Sums(weights.numbers, 7, values.rows, keys.rows);
      for (int x = 0; x < 7 * dim; ++x) {
        ExactSum exact;
        for (int j = 0; j < count; ++j) exact.Add(weights.Get(x / dim, j), values.Get(j, x % dim));
        ASSERT_NEAR(sums[x], exact.sum, 2e-6 * exact.size) << x << " of " << count << " keys";
      }
    }
  });
}

bool StartsWith(const std::vector<float>& whole, const std::vector<float>& part) {
  return part.size() <= whole.size() && std::memcmp(whole.data(), part.data(), part.size() * sizeof(float)) == 0;
}

// A row has the bits that it has alone, a key those that it has alone, and keys may be added in several calls.
TEST_P(RowProductsTest, BitsDependOnNoOtherRowOrKey) {
  ForEachTypeAndDim([](ElementType type, int dim) {
    constexpr int64_t kCount = 70;
    const Source queries(type, kMaxRows, dim, dim, 1), keys(type, kCount, dim, dim, 2);
    const Source weights(ElementType::kFloat32, kMaxRows, kCount, kCount, 3);
    const std::vector<float> scores = Scores(queries, kMaxRows, keys.rows, {});
    const std::vector<float> sums = Sums(weights.numbers, kMaxRows, keys.rows, {});
    for (int rows = 1; rows <= kMaxRows; ++rows) {
      EXPECT_TRUE(StartsWith(scores, Scores(queries, rows, keys.rows, keys.rows))) << rows << " rows";
      EXPECT_TRUE(StartsWith(sums, Sums(weights.numbers, rows, keys.rows, keys.rows))) << rows << " rows";
    }
    for (const int64_t j : {0, 1, 5, 69}) {
      const std::vector<float> alone = Scores(queries, kMaxRows, Part(keys.rows, j, 1), {});
      for (int i = 0; i < kMaxRows; ++i) ASSERT_EQ(alone[i], scores[i * kCount + j]) << i << " " << j;
    }
    std::vector<float> parts(ExpandedDim(dim)), restored(dim), copy = weights.numbers;
    for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 40}, {41, 29}}) {
      AddWeightedValues({.first = &copy[begin], .stride = kCount, .rows = 1}, Part(keys.rows, begin, count), {},
                        parts.data());
    }
    RestoreRow(parts.data(), dim, type, restored.data());
    EXPECT_TRUE(StartsWith(sums, restored));
  });
}

// Rounded rows are computed with as rows of the nearest bfloat16 numbers are: the same bits.
TEST_P(RowProductsTest, RoundedRowsAreThoseOfTheNearestBFloat16) {
  for (const int dim : kDims) {
    SCOPED_TRACE(dim);
    constexpr int kRows = 3;
    Source queries(ElementType::kFloat32, kRows, dim, dim, 1), keys(ElementType::kFloat32, 13, dim, dim + 3, 2);
    queries.rows.rounded = keys.rows.rounded = true;
    Source nearest_queries = queries.Nearest(), nearest_keys = keys.Nearest();
    const Source weights(ElementType::kFloat32, kRows, 13, 13, 3);
    for (const int rows : {1, 2, kRows}) {
      const std::vector<float> scores = Scores(nearest_queries, rows, nearest_keys.rows, {});
      EXPECT_TRUE(StartsWith(scores, Scores(queries, rows, keys.rows, {})));
      const std::vector<float> sums = Sums(weights.numbers, rows, nearest_keys.rows, {});
      EXPECT_TRUE(StartsWith(sums, Sums(weights.numbers, rows, keys.rows, {})));
    }
  }
}

// An element that is not finite shows in what it is an element of, and nowhere else.
TEST_P(RowProductsTest, NumbersThatAreNotKeepToThemselves) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ForEachTypeAndDim([](ElementType type, int dim) {
    for (const int d : {0, dim / 2, dim - 1}) {
      Source queries(type, 3, dim, dim, 1), keys(type, 6, dim, dim, 2);
      for (int i = 0; i < 3; ++i) queries.Set(i, d, 1);
      keys.Set(4, d, kInfinity);
      const std::vector<float> scores = Scores(queries, 3, keys.rows, {});
      for (int x = 0; x < 18; ++x) ASSERT_EQ(scores[x] == kInfinity, x % 6 == 4) << x << " element " << d;
      const std::vector<float> sums = Sums(std::vector<float>(18, 0.5F), 3, keys.rows, {});
      for (int x = 0; x < 3 * dim; ++x) ASSERT_EQ(std::isfinite(sums[x]), x % dim != d) << x << " element " << d;
    }
  });
}

}  // namespace
}  // namespace attend::core
