#include "tests/testing/generators.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::ElementType;
using ::testing::Each;
using ::testing::Eq;

AttentionProblem MakeProblem(ElementType type) {
  return AttentionProblem::Create(
             {.query_heads = 2, .query_length = 50, .key_length = 100, .head_dim = 8, .value_dim = 4}, type)
      .value();
}

TEST(GenerateTest, FillsEachTensorFromTheSeedAlone) {
  const AttentionProblem problem = MakeProblem(ElementType::kFloat32);
  const Fill fill = Normal();
  const ProblemValues first = Generate(problem, 5, fill, fill);
  const ProblemValues again = Generate(problem, 5, fill, fill);
  EXPECT_EQ(first.query.size(), 2 * 50 * 8);
  EXPECT_EQ(first.key.size(), 100 * 8);
  EXPECT_EQ(first.value.size(), 100 * 4);
  EXPECT_EQ(first.query, again.query);
  EXPECT_EQ(first.value, again.value);
  EXPECT_NE(first.query, Generate(problem, 6, fill, fill).query);
}

TEST(GenerateTest, NumbersAreOfTheProblemsType) {
  for (ElementType type : {ElementType::kBFloat16, ElementType::kFloat16}) {
    for (float element : Generate(MakeProblem(type), 5).key) EXPECT_EQ(element, RoundTo(type, element));
  }
}

TEST(GenerateTest, NormalNumbersHaveTheirMeanAndDeviation) {
  const std::vector<float> numbers = Generate(MakeProblem(ElementType::kFloat32), 5, Normal(3, 2), Normal()).query;
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / numbers.size();
  double square = 0;
  for (float number : numbers) square += (number - mean) * (number - mean);
  EXPECT_NEAR(mean, 3, 0.3);
  EXPECT_NEAR(std::sqrt(square / numbers.size()), 2, 0.3);
}

TEST(GenerateTest, SpecialsStayFiniteAndIncludeSubnormals) {
  for (ElementType type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    bool subnormal = false;
    for (float element : Generate(MakeProblem(type), 5, Specials(type), Constant(1)).key) {
      EXPECT_LE(std::abs(element), 7);
      subnormal |= element != 0 && std::abs(element) < (type == ElementType::kFloat16 ? 0x1p-14F : 0x1p-126F);
    }
    EXPECT_TRUE(subnormal) << core::ElementTypeName(type);
  }
}

TEST(GenerateTest, IntegersAreWholeAndBounded) {
  for (float element : Generate(MakeProblem(ElementType::kFloat16), 5, Integers(3), Constant(1)).query) {
    EXPECT_EQ(element, std::round(element));
    EXPECT_LE(std::abs(element), 3);
  }
  EXPECT_THAT(Generate(MakeProblem(ElementType::kFloat16), 5, Integers(3), Constant(1)).value, Each(Eq(1)));
}

}  // namespace
}  // namespace attend::testing
