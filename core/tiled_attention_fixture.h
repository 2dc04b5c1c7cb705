// For the tests of tiled attention: tensors of any element type, and problems computed on real threads.
#ifndef ATTEND_CORE_TILED_ATTENTION_FIXTURE_H_
#define ATTEND_CORE_TILED_ATTENTION_FIXTURE_H_

#include <omp.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/instruction_set.h"
#include "core/tile_kernels.h"
#include "core/tiled_attention.h"
#include "gtest/gtest.h"

namespace attend::core {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  AttentionShape shape;
  ElementType type = ElementType::kFloat32;
  AttentionOptions options = {};
  ResultSelection results = {};
};

inline AttentionProblem MakeProblem(const Case& c) {
  auto problem = AttentionProblem::Create(c.shape, c.type, c.options, c.results);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

// Elements of any type in memory, read and written as floats.
class Tensor {
 public:
  Tensor(ElementType type, int64_t bytes) : type_(type), bytes_(bytes, 0xcd) {}

  void* data() { return bytes_.data(); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()) / ElementBytes(type_); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

  float Get(int64_t i) const {
    if (type_ == ElementType::kFloat32) {
      float value = 0;
      std::memcpy(&value, &bytes_[i * 4], 4);
      return value;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, &bytes_[i * 2], 2);
    return type_ == ElementType::kBFloat16 ? BFloat16ToFloat(bits) : Float16ToFloat(bits);
  }
  std::vector<float> Numbers() const {
    std::vector<float> numbers(size());
    for (int64_t i = 0; i < size(); ++i) numbers[i] = Get(i);
    return numbers;
  }
  void Set(int64_t i, float value) {
    if (type_ == ElementType::kFloat32) {
      std::memcpy(&bytes_[i * 4], &value, 4);
      return;
    }
    const uint16_t bits = type_ == ElementType::kBFloat16 ? FloatToBFloat16(value) : FloatToFloat16(value);
    std::memcpy(&bytes_[i * 2], &bits, 2);
  }
  void Randomize(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < size(); ++i) Set(i, normal(random));
  }

 private:
  ElementType type_;
  std::vector<unsigned char> bytes_;
};

// Mask and bias, if the problem has them: a key in four is excluded by each.
struct Inputs {
  Tensor query, key, value, bias;
  std::vector<uint8_t> mask;

  Inputs(const AttentionProblem& p, unsigned seed)
      : query(p.type(), p.QueryBytes()),
        key(p.type(), p.KeyBytes()),
        value(p.type(), p.ValueBytes()),
        bias(p.options().bias.value_or(BroadcastTensor()).type, p.BiasBytes()),
        mask(p.MaskBytes()) {
    std::mt19937 random(seed);
    query.Randomize(random);
    key.Randomize(random);
    value.Randomize(random);
    bias.Randomize(random);
    for (int64_t i = 0; i < bias.size(); ++i) {
      if (random() % 4 == 0) bias.Set(i, -kInfinity);
    }
    for (uint8_t& m : mask) m = random() % 4 != 0;
  }

  AttentionInputs all() {
    return {.query = query.data(), .key = key.data(), .value = value.data(), .mask = mask.data(), .bias = bias.data()};
  }
};

struct Results {
  Tensor output;
  std::vector<float> weights, scores, logsumexp;

  explicit Results(const AttentionProblem& p)
      : output(p.output_type(), p.OutputBytes()),
        weights(p.WeightsBytes() / 4, 123.0f),
        scores(p.ScoresBytes() / 4, 123.0f),
        logsumexp(p.LogsumexpBytes() / 4, 123.0f) {}

  AttentionResults all() {
    return {.output = output.data(), .weights = weights.data(), .scores = scores.data(), .logsumexp = logsumexp.data()};
  }
};

// Equal bits; which NaN does not matter, there is only one.
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline void ExpectSameBits(const Results& a, const Results& b) {
  EXPECT_EQ(a.output.bytes(), b.output.bytes());
  EXPECT_TRUE(SameBits(a.weights, b.weights));
  EXPECT_TRUE(SameBits(a.scores, b.scores));
  EXPECT_TRUE(SameBits(a.logsumexp, b.logsumexp));
}

inline int64_t At(const Strides& s, int64_t b, int64_t h, int64_t i, int64_t d) {
  return b * s.batch + h * s.head + i * s.row + d;
}

// What ATTEND_TEST_INSTRUCTION_SET caps the computation to; nothing unless it is set.
inline std::optional<InstructionSet> InstructionSetUnderTest() {
  const char* const name = std::getenv("ATTEND_TEST_INSTRUCTION_SET");
  if (name == nullptr) return std::nullopt;
  const auto set = ParseInstructionSet(name);
  EXPECT_TRUE(set.ok()) << set.status();
  return *set;
}

// Whether ATTEND_TEST_TILES_ONLY is set: then few query rows are computed in tiles as well.
inline bool TilesOnlyUnderTest() { return std::getenv("ATTEND_TEST_TILES_ONLY") != nullptr; }

class TiledAttentionTest : public testing::Test {
 protected:
  static std::unique_ptr<TileKernels> MakeKernels(int workers, BufferPool* buffers,
                                                  bool tiles_only = TilesOnlyUnderTest()) {
    auto kernels = TileKernels::Create({.workers = workers,
                                        .max_instruction_set = InstructionSetUnderTest(),
                                        .tiles_only = tiles_only,
                                        .buffers = buffers});
    EXPECT_TRUE(kernels.ok()) << kernels.status();
    return *std::move(kernels);
  }

  // Steps until nothing is left, each worker on its own thread.
  static absl::Status RunAll(TileSource& source, int workers) {
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&source, worker] {
        omp_set_num_threads(1);
        for (;;) {
          const auto outcome = source.Step(worker).outcome;
          if (outcome == TileSource::Outcome::kExhausted) return;
          if (outcome == TileSource::Outcome::kBlocked) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(source.finished());
    return source.status();
  }

  static Results Compute(const AttentionProblem& problem, Inputs& inputs, int workers = 1,
                         bool tiles_only = TilesOnlyUnderTest()) {
    BufferPool buffers(int64_t{64} << 20);
    const auto kernels = MakeKernels(workers, &buffers, tiles_only);
    Results results(problem);
    auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
    EXPECT_TRUE(job.ok()) << job.status();
    const absl::Status status = RunAll(**job, workers);
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }
};

// One batch element, two query heads on one kv head.
inline Case Causal(int64_t queries, int64_t keys, CausalAlignment causal, int64_t dim = 64) {
  Case c;
  c.shape = {.batch = 1,
             .query_heads = 2,
             .kv_heads = 1,
             .query_length = queries,
             .key_length = keys,
             .head_dim = dim,
             .value_dim = dim};
  c.options.causal = causal;
  return c;
}

}  // namespace attend::core

#endif  // ATTEND_CORE_TILED_ATTENTION_FIXTURE_H_
