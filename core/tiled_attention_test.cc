// Small problems against a plain double loop, and the promises about bits, workers and memory. The large suite against
// the oracle is in tests/conformance.
#include "core/tiled_attention.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  AttentionShape shape;
  ElementType type = ElementType::kFloat32;
  AttentionOptions options = {};
  ResultSelection results = {};
};

AttentionProblem MakeProblem(const Case& c) {
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
      float value;
      std::memcpy(&value, &bytes_[i * 4], 4);
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, &bytes_[i * 2], 2);
    return type_ == ElementType::kBFloat16 ? BFloat16ToFloat(bits) : Float16ToFloat(bits);
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

struct Inputs {
  Tensor query, key, value;

  Inputs(const AttentionProblem& p, unsigned seed)
      : query(p.type(), p.QueryBytes()), key(p.type(), p.KeyBytes()), value(p.type(), p.ValueBytes()) {
    std::mt19937 random(seed);
    query.Randomize(random);
    key.Randomize(random);
    value.Randomize(random);
  }
};

struct Results {
  Tensor output;
  std::vector<float> weights, logsumexp;

  explicit Results(const AttentionProblem& p)
      : output(p.type(), p.OutputBytes()),
        weights(p.WeightsBytes() / 4, 123.0f),
        logsumexp(p.LogsumexpBytes() / 4, 123.0f) {}
};

int64_t At(const Strides& s, int64_t b, int64_t h, int64_t i, int64_t d) {
  return b * s.batch + h * s.head + i * s.row + d;
}

class TiledAttentionTest : public testing::Test {
 protected:
  static std::unique_ptr<TileKernels> MakeKernels(int workers, BufferPool* buffers) {
    auto kernels = TileKernels::Create({.workers = workers, .max_instruction_set = {}, .buffers = buffers});
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

  static Results Compute(const AttentionProblem& problem, Inputs& inputs, int workers = 1) {
    BufferPool buffers(int64_t{64} << 20);
    const auto kernels = MakeKernels(workers, &buffers);
    Results results(problem);
    auto job = TiledAttention::Create(
        problem, {.query = inputs.query.data(), .key = inputs.key.data(), .value = inputs.value.data()},
        {.output = results.output.data(), .weights = results.weights.data(), .logsumexp = results.logsumexp.data()},
        *kernels);
    EXPECT_TRUE(job.ok()) << job.status();
    const absl::Status status = RunAll(**job, workers);
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }

  // One query, literally. Returns logsumexp; writes weights [key_length] and output [value_dim].
  static double Row(const AttentionProblem& p, const Inputs& in, int64_t b, int64_t h, int64_t i,
                    std::vector<double>& weights, std::vector<double>& output) {
    const int64_t kv = h / p.group_size();
    const int64_t end = p.VisibleKeyEnd(b, i);
    weights.assign(p.shape().key_length, 0);
    output.assign(p.shape().value_dim, 0);
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < end; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < p.shape().head_dim; ++d) {
        dot += double{in.query.Get(At(p.QueryStrides(), b, h, i, d))} * in.key.Get(At(p.KeyStrides(), b, kv, j, d));
      }
      weights[j] = dot * p.scale();
      top = std::max(top, weights[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < end; ++j) sum += weights[j] = std::exp(weights[j] - top);
    for (int64_t j = 0; j < end; ++j) {
      weights[j] /= sum;
      for (int64_t d = 0; d < p.shape().value_dim; ++d) {
        output[d] += weights[j] * in.value.Get(At(p.ValueStrides(), b, kv, j, d));
      }
    }
    return end == 0 ? -std::numeric_limits<double>::infinity() : top + std::log(sum);
  }

  static void ExpectCorrect(const AttentionProblem& p, const Inputs& in, const Results& out) {
    const AttentionShape& s = p.shape();
    const bool native = p.type() == ElementType::kBFloat16;
    const double rounding = p.type() == ElementType::kFloat32 ? 2e-5 : p.type() == ElementType::kFloat16 ? 2e-3 : 2e-2;
    std::vector<double> weights, output;
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.query_heads; ++h) {
        for (int64_t i = 0; i < s.query_length; ++i) {
          const double logsumexp = Row(p, in, b, h, i, weights, output);
          const std::string where = absl::StrCat("b ", b, " h ", h, " i ", i);
          for (int64_t d = 0; d < s.value_dim; ++d) {
            ASSERT_NEAR(out.output.Get(At(p.OutputStrides(), b, h, i, d)), output[d], rounding) << where << " d " << d;
          }
          const int64_t row = (b * s.query_heads + h) * s.query_length + i;
          if (!out.logsumexp.empty() && std::isinf(logsumexp)) {
            ASSERT_EQ(out.logsumexp[row], -kInfinity) << where;
          } else if (!out.logsumexp.empty()) {
            ASSERT_NEAR(out.logsumexp[row], logsumexp, native ? 1e-4 : 2e-5) << where;
          }
          for (int64_t j = 0; j < s.key_length && !out.weights.empty(); ++j) {
            ASSERT_NEAR(out.weights[row * s.key_length + j], weights[j], 2e-6) << where << " j " << j;
            if (j < p.VisibleKeyEnd(b, i)) continue;
            ASSERT_EQ(out.weights[row * s.key_length + j], 0) << where << " j " << j;
          }
        }
      }
    }
  }
};

TEST_F(TiledAttentionTest, AgreesWithThePlainLoop) {
  const CausalAlignment alignments[] = {CausalAlignment::kNone, CausalAlignment::kTopLeft,
                                        CausalAlignment::kBottomRight};
  const ElementType types[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};
  struct Lengths {
    int64_t queries, keys;
  };
  const Lengths lengths[] = {{1, 1}, {5, 3}, {16, 64}, {33, 65}, {64, 63}, {130, 257}, {257, 130}, {3, 513}, {300, 1}};
  struct Dims {
    int64_t head, value;
  };
  const Dims dims[] = {{1, 1}, {3, 16}, {16, 3}, {33, 80}, {64, 64}, {80, 112}};
  int n = 0;
  for (const Lengths& l : lengths) {
    for (const Dims& d : dims) {
      const CausalAlignment causal = alignments[n % 3];
      const ElementType type = types[n / 3 % 3];
      const Layout layout = n % 2 == 0 ? Layout::kBHND : Layout::kBNHD;
      const int64_t group = n % 4 + 1;
      ++n;
      AttentionOptions options = {.layout = layout, .causal = causal};
      if (n % 5 == 0) options.key_lengths = {l.keys / 2, l.keys};
      const Case c = {.shape = {.batch = 2,
                                .query_heads = 2 * group,
                                .kv_heads = 2,
                                .query_length = l.queries,
                                .key_length = l.keys,
                                .head_dim = d.head,
                                .value_dim = d.value},
                      .type = type,
                      .options = options,
                      .results = {.weights = true, .logsumexp = true}};
      SCOPED_TRACE(absl::StrCat("queries ", l.queries, " keys ", l.keys, " dims ", d.head, " ", d.value, " causal ",
                                static_cast<int>(causal), " ", std::string(ElementTypeName(type)), " group ", group,
                                " layout ", static_cast<int>(layout)));
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 17 + n);
      ExpectCorrect(problem, inputs, Compute(problem, inputs, 1 + n % 2));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace attend::core
