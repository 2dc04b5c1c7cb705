#include "tests/testing/generators.h"

#include <utility>
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

int64_t ElementCount(const core::BroadcastTensor& tensor) {
  int64_t count = 1;
  for (const int64_t length : tensor.shape) count *= length;
  return count;
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

Fill OneIn(int n, float number, Fill fill) {
  return [n, number, fill = std::move(fill)](std::mt19937_64& random) {
    return random() % n == 0 ? number : fill(random);
  };
}

ProblemValues Generate(const AttentionProblem& problem, uint64_t seed, const Fills& fills) {
  const AttentionShape& s = problem.shape();
  const int64_t batch = problem.options().layout == core::Layout::kTHD ? 1 : s.batch;
  ProblemValues values;
  values.seed = seed;
  values.query.resize(batch * s.query_heads * s.query_length * s.head_dim);
  values.key.resize(batch * s.kv_heads * s.key_length * s.head_dim);
  values.value.resize(batch * s.kv_heads * s.key_length * s.value_dim);
  std::mt19937_64 random(seed);
  FillTensor(problem.type(), fills.query_and_key, random, &values.query);
  FillTensor(problem.type(), fills.query_and_key, random, &values.key);
  FillTensor(problem.type(), fills.value, random, &values.value);
  if (problem.options().bias.has_value()) {
    values.bias.resize(ElementCount(*problem.options().bias));
    FillTensor(problem.options().bias->type, fills.bias, random, &values.bias);
  }
  if (problem.options().mask.has_value()) {
    values.mask.resize(ElementCount(*problem.options().mask));
    Fill mask = fills.mask;
    for (uint8_t& element : values.mask) element = mask(random) != 0 ? 1 : 0;
  }
  return values;
}

ProblemValues Generate(const AttentionProblem& problem, uint64_t seed, const Fill& query_and_key, const Fill& value) {
  Fills fills;
  fills.query_and_key = query_and_key;
  fills.value = value;
  return Generate(problem, seed, fills);
}

}  // namespace attend::testing
