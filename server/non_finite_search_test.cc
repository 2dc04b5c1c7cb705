#include "server/non_finite_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/violation.h"

namespace attend::server {
namespace {

using core::AttentionProblem;
using core::ElementType;

AttentionProblem Problem(ElementType type, core::AttentionOptions options = {}) {
  const core::AttentionShape shape = {
      .batch = 2, .query_heads = 2, .kv_heads = 1, .query_length = 3, .key_length = 700, .head_dim = 4, .value_dim = 2};
  return *AttentionProblem::Create(shape, type, std::move(options));
}

// The three tensors of a problem, all of 1.
struct Tensors {
  explicit Tensors(const AttentionProblem& problem)
      : type(problem.type()), query(problem.QueryBytes()), key(problem.KeyBytes()), value(problem.ValueBytes()) {
    for (std::vector<char>* tensor : {&query, &key, &value}) {
      const int64_t count = static_cast<int64_t>(tensor->size()) / core::ElementBytes(type);
      for (int64_t i = 0; i < count; ++i) Set(*tensor, i, 1);
    }
  }

  void Set(std::vector<char>& tensor, int64_t index, float number) const {
    const uint16_t bits = type == ElementType::kFloat16 ? core::FloatToFloat16(number) : core::FloatToBFloat16(number);
    const bool wide = type == ElementType::kFloat32;
    std::memcpy(tensor.data() + index * core::ElementBytes(type), wide ? static_cast<const void*>(&number) : &bits,
                static_cast<size_t>(core::ElementBytes(type)));
  }

  core::AttentionInputs inputs() const { return {.query = query.data(), .key = key.data(), .value = value.data()}; }

  ElementType type;
  std::vector<char> query;
  std::vector<char> key;
  std::vector<char> value;
};

// Searches in pieces of `step` bytes.
absl::Status Search(const AttentionProblem& problem, const Tensors& tensors, int64_t step) {
  NonFiniteSearch search(problem, tensors.inputs());
  while (!search.done()) {
    if (absl::Status status = search.Step(step); !status.ok()) return status;
  }
  return absl::OkStatus();
}

class NonFiniteSearchTest : public ::testing::TestWithParam<ElementType> {};

INSTANTIATE_TEST_SUITE_P(Types, NonFiniteSearchTest,
                         ::testing::Values(ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16),
                         [](const auto& type) { return std::string(core::ElementTypeName(type.param)); });

TEST_P(NonFiniteSearchTest, FindsEveryElementOfEveryTensor) {
  const AttentionProblem problem = Problem(GetParam());
  Tensors tensors(problem);
  EXPECT_TRUE(Search(problem, tensors, 1 << 20).ok());
  struct Part {
    std::vector<char>& bytes;
    std::vector<int64_t> shape;
    const char* name;
  };
  for (const Part& part :
       {Part{tensors.query, {2, 2, 3, 4}, "query.data"}, Part{tensors.key, {2, 1, 700, 4}, "key.data"},
        Part{tensors.value, {2, 1, 700, 2}, "value.data"}}) {
    const int64_t count = static_cast<int64_t>(part.bytes.size()) / core::ElementBytes(GetParam());
    for (int64_t i = 0; i < count; ++i) {
      tensors.Set(part.bytes, i, i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -HUGE_VALF);
      const absl::Status status = Search(problem, tensors, i % 3 == 0 ? 1 << 20 : 1000);
      tensors.Set(part.bytes, i, 1);
      ASSERT_TRUE(absl::IsInvalidArgument(status)) << part.name << " " << i;
      const auto violation = core::GetViolation(status);
      EXPECT_EQ(violation->field, part.name);
      EXPECT_EQ(violation->reason, "ELEMENT_NOT_FINITE");
      const int64_t d = part.shape[3];
      const int64_t n = part.shape[2];
      const int64_t h = part.shape[1];
      ASSERT_EQ(violation->value, absl::StrCat(i % 2 == 0 ? "nan" : "-inf", " at [", i / d / n / h, ", ", i / d / n % h,
                                               ", ", i / d % n, ", ", i % d, "]"));
    }
  }
}

TEST_P(NonFiniteSearchTest, FiniteNumbersAreAllFine) {
  const AttentionProblem problem = Problem(GetParam());
  Tensors tensors(problem);
  const float largest = GetParam() == ElementType::kFloat16 ? 65504 : 0x1.FEp127F;
  int64_t i = 0;
  for (const float number : {largest, -largest, 0.0F, -0.0F, 0x1p-24F, 0x1p-14F, 0x1p-126F}) {
    tensors.Set(tensors.key, i++, number);
  }
  EXPECT_TRUE(Search(problem, tensors, 100).ok());
}

TEST_P(NonFiniteSearchTest, ReportsTheFirstWhateverThePieces) {
  const AttentionProblem problem = Problem(GetParam(), {.layout = core::Layout::kBNHD});
  Tensors tensors(problem);
  tensors.Set(tensors.value, 0, HUGE_VALF);
  tensors.Set(tensors.key, 4 * 700 + 9, HUGE_VALF);
  tensors.Set(tensors.key, 4 * 700 + 10, std::numeric_limits<float>::quiet_NaN());
  for (const int64_t step : {1, 2, 4, 1000, 1 << 20}) {
    const absl::Status status = Search(problem, tensors, step);
    EXPECT_EQ(status.message(), "key.data has inf at [1, 2, 0, 1], must be finite (options.reject_non_finite)") << step;
  }
}

TEST(NonFiniteSearchPiecesTest, LooksAtNoMoreThanItMay) {
  const AttentionProblem problem = Problem(ElementType::kFloat32);
  Tensors tensors(problem);
  const int64_t bytes = problem.QueryBytes() + problem.KeyBytes() + problem.ValueBytes();
  NonFiniteSearch search(problem, tensors.inputs());
  int64_t steps = 0;
  for (; !search.done(); ++steps) ASSERT_TRUE(search.Step(256).ok());
  EXPECT_EQ(steps, (bytes + 255) / 256);
}

TEST(NonFiniteSearchPiecesTest, NothingToLookAt) {
  const auto problem = AttentionProblem::Create({.batch = 0, .head_dim = 1, .value_dim = 1}, ElementType::kFloat32);
  NonFiniteSearch search(*problem, {});
  EXPECT_TRUE(search.Step(1).ok());
  EXPECT_TRUE(search.done());
}

}  // namespace
}  // namespace attend::server
