#include "tests/testing/generators.h"

#include <vector>

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::ElementType;

void FillTensor(ElementType type, const Fill& fill, std::mt19937_64& random, std::vector<float>* tensor) {
  const Fill fresh = fill;  // a distribution that has been drawn from is another one
  for (float& element : *tensor) element = RoundTo(type, fresh(random));
}

float SmallestSubnormal(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 0x1p-149F;
    case ElementType::kBFloat16:
      return 0x1p-133F;
    case ElementType::kFloat16:
      return 0x1p-24F;
  }
  return 0;
}

float SmallestNormal(ElementType type) { return type == ElementType::kFloat16 ? 0x1p-14F : 0x1p-126F; }

}  // namespace

Fill Normal(double mean, double deviation) {
  return [distribution = std::normal_distribution<double>(mean, deviation)](std::mt19937_64& random) mutable {
    return static_cast<float>(distribution(random));
  };
}

Fill Integers(int largest) {
  return [distribution = std::uniform_int_distribution<int>(-largest, largest)](std::mt19937_64& random) mutable {
    return static_cast<float>(distribution(random));
  };
}

Fill Specials(ElementType type) {
  const float subnormal = SmallestSubnormal(type);
  const std::vector<float> magnitudes = {0, subnormal, 3 * subnormal, SmallestNormal(type), 0x1p-7F, 1, 2, 7};
  return [magnitudes](std::mt19937_64& random) {
    const float magnitude = magnitudes[random() % magnitudes.size()];
    return random() % 2 == 0 ? magnitude : -magnitude;
  };
}

Fill Constant(float value) {
  return [value](std::mt19937_64&) { return value; };
}

ProblemValues Generate(const AttentionProblem& problem, uint64_t seed, const Fill& query_and_key, const Fill& value) {
  const AttentionShape& s = problem.shape();
  ProblemValues values;
  values.seed = seed;
  values.query.resize(s.batch * s.query_heads * s.query_length * s.head_dim);
  values.key.resize(s.batch * s.kv_heads * s.key_length * s.head_dim);
  values.value.resize(s.batch * s.kv_heads * s.key_length * s.value_dim);
  std::mt19937_64 random(seed);
  FillTensor(problem.type(), query_and_key, random, &values.query);
  FillTensor(problem.type(), query_and_key, random, &values.key);
  FillTensor(problem.type(), value, random, &values.value);
  return values;
}

ProblemValues Generate(const AttentionProblem& problem, uint64_t seed) {
  return Generate(problem, seed, Normal(), Normal());
}

}  // namespace attend::testing
