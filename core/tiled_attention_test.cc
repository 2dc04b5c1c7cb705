// Small problems against a plain double loop, and the promises about bits, workers and memory. The large suite against
// the oracle is in tests/conformance.
#include "core/tiled_attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
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

// Inputs as floats, converted once.
struct Numbers {
  std::vector<float> query, key, value;

  explicit Numbers(const Inputs& in) : query(in.query.Numbers()), key(in.key.Numbers()), value(in.value.Numbers()) {}
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
  static double Row(const AttentionProblem& p, const Numbers& in, int64_t b, int64_t h, int64_t i,
                    std::vector<double>& weights, std::vector<double>& output) {
    const int64_t kv = h / p.group_size();
    const int64_t end = p.VisibleKeyEnd(b, i);
    weights.assign(p.shape().key_length, 0);
    output.assign(p.shape().value_dim, 0);
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < end; ++j) {
      const float* const query = &in.query[At(p.QueryStrides(), b, h, i, 0)];
      const float* const key = &in.key[At(p.KeyStrides(), b, kv, j, 0)];
      double dot = 0;
      for (int64_t d = 0; d < p.shape().head_dim; ++d) {
        dot += double{query[d]} * key[d];
      }
      weights[j] = dot * p.scale();
      top = std::max(top, weights[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < end; ++j) sum += weights[j] = std::exp(weights[j] - top);
    for (int64_t j = 0; j < end; ++j) {
      weights[j] /= sum;
      const float* const value = &in.value[At(p.ValueStrides(), b, kv, j, 0)];
      for (int64_t d = 0; d < p.shape().value_dim; ++d) output[d] += weights[j] * value[d];
    }
    return end == 0 ? -std::numeric_limits<double>::infinity() : top + std::log(sum);
  }

  static void ExpectCorrect(const AttentionProblem& p, const Inputs& in, const Results& out) {
    const AttentionShape& s = p.shape();
    const bool native = p.type() == ElementType::kBFloat16;
    const double rounding = p.type() == ElementType::kFloat32 ? 2e-5 : p.type() == ElementType::kFloat16 ? 2e-3 : 2e-2;
    const Numbers numbers(in);
    const std::vector<float> outputs = out.output.Numbers();
    std::vector<double> weights, output;
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.query_heads; ++h) {
        for (int64_t i = 0; i < s.query_length; ++i) {
          const double logsumexp = Row(p, numbers, b, h, i, weights, output);
          SCOPED_TRACE(absl::StrCat("b ", b, " h ", h, " i ", i));
          for (int64_t d = 0; d < s.value_dim; ++d) {
            ASSERT_NEAR(outputs[At(p.OutputStrides(), b, h, i, d)], output[d], rounding) << d;
          }
          const int64_t row = (b * s.query_heads + h) * s.query_length + i;
          if (!out.logsumexp.empty() && std::isinf(logsumexp)) {
            ASSERT_EQ(out.logsumexp[row], -kInfinity);
          } else if (!out.logsumexp.empty()) {
            ASSERT_NEAR(out.logsumexp[row], logsumexp, native ? 1e-4 : 2e-5);
          }
          for (int64_t j = 0; j < s.key_length && !out.weights.empty(); ++j) {
            ASSERT_NEAR(out.weights[row * s.key_length + j], weights[j], 2e-6) << j;
            if (j < p.VisibleKeyEnd(b, i)) continue;
            ASSERT_EQ(out.weights[row * s.key_length + j], 0) << j;
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

Case Causal(int64_t queries, int64_t keys, CausalAlignment causal, int64_t dim = 64) {
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

// Workers also decide the size of query blocks, so this covers that, too.
TEST_F(TiledAttentionTest, SameBitsForAnyNumberOfWorkers) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const auto causal : {CausalAlignment::kNone, CausalAlignment::kTopLeft, CausalAlignment::kBottomRight}) {
      Case c = Causal(333, 700, causal);
      c.type = type;
      c.results = {.weights = true, .logsumexp = true};
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 3);
      const Results one = Compute(problem, inputs, 1);
      for (const int workers : {2, 3, 8}) {
        const Results many = Compute(problem, inputs, workers);
        EXPECT_EQ(one.output.bytes(), many.output.bytes()) << workers;
        EXPECT_EQ(one.weights, many.weights) << workers;
        EXPECT_EQ(one.logsumexp, many.logsumexp) << workers;
      }
    }
  }
}

TEST_F(TiledAttentionTest, AskingForMoreChangesNoBitOfTheOutput) {
  Case c = Causal(200, 300, CausalAlignment::kBottomRight);
  const AttentionProblem plain = MakeProblem(c);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem full = MakeProblem(c);
  Inputs inputs(plain, 4);
  EXPECT_EQ(Compute(plain, inputs).output.bytes(), Compute(full, inputs).output.bytes());
}

// Element b of a batch, key_lengths and all, against the same problem alone.
TEST_F(TiledAttentionTest, SameBitsAloneAndInABatch) {
  Case c = Causal(150, 300, CausalAlignment::kTopLeft, 80);
  c.shape.batch = 3;
  c.options.key_lengths = {300, 77, 256};
  const AttentionProblem batch = MakeProblem(c);
  Inputs inputs(batch, 5);
  const Results together = Compute(batch, inputs, 2);
  for (int64_t b = 0; b < 3; ++b) {
    Case one = c;
    one.shape.batch = 1;
    one.options.key_lengths = {c.options.key_lengths[b]};
    const AttentionProblem problem = MakeProblem(one);
    Inputs alone(problem, 1);
    for (int64_t i = 0; i < alone.query.size(); ++i) alone.query.Set(i, inputs.query.Get(b * alone.query.size() + i));
    for (int64_t i = 0; i < alone.key.size(); ++i) alone.key.Set(i, inputs.key.Get(b * alone.key.size() + i));
    for (int64_t i = 0; i < alone.value.size(); ++i) alone.value.Set(i, inputs.value.Get(b * alone.value.size() + i));
    const Results result = Compute(problem, alone);
    EXPECT_EQ(std::memcmp(result.output.bytes().data(), together.output.bytes().data() + b * problem.OutputBytes(),
                          problem.OutputBytes()),
              0)
        << "element " << b;
  }
}

TEST_F(TiledAttentionTest, SameBitsInBothLayouts) {
  Case c = Causal(100, 200, CausalAlignment::kTopLeft);
  const AttentionProblem heads_first = MakeProblem(c);
  c.options.layout = Layout::kBNHD;
  const AttentionProblem length_first = MakeProblem(c);
  Inputs from(heads_first, 6);
  Inputs to(length_first, 1);
  const auto copy = [](const Tensor& source, const Strides& a, Tensor& target, const Strides& b, int64_t heads,
                       int64_t length, int64_t dim) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        for (int64_t d = 0; d < dim; ++d) target.Set(At(b, 0, h, i, d), source.Get(At(a, 0, h, i, d)));
      }
    }
  };
  copy(from.query, heads_first.QueryStrides(), to.query, length_first.QueryStrides(), 2, 100, 64);
  copy(from.key, heads_first.KeyStrides(), to.key, length_first.KeyStrides(), 1, 200, 64);
  copy(from.value, heads_first.ValueStrides(), to.value, length_first.ValueStrides(), 1, 200, 64);
  const Results a = Compute(heads_first, from);
  const Results b = Compute(length_first, to);
  Results reordered(heads_first);
  copy(b.output, length_first.OutputStrides(), reordered.output, heads_first.OutputStrides(), 2, 100, 64);
  EXPECT_EQ(a.output.bytes(), reordered.output.bytes());
}

// Whatever lies in keys and values that a query does not see, it keeps its bits.
TEST_F(TiledAttentionTest, WhatAQueryDoesNotSeeChangesNoBitOfIt) {
  const float poisons[] = {kNan, kInfinity, -kInfinity};
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
    for (const int64_t poisoned : {0, 5, 64, 130, 255, 256, 290}) {
      Case c = Causal(300, 300, CausalAlignment::kTopLeft);
      c.type = type;
      c.results = {.weights = true, .logsumexp = true};
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 8);
      const Results clean = Compute(problem, inputs);
      for (int64_t d = 0; d < 64; d += 3) {
        inputs.key.Set(poisoned * 64 + d, poisons[d % 2]);
        inputs.value.Set(poisoned * 64 + d, poisons[d % 3]);
      }
      const Results dirty = Compute(problem, inputs, 2);
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 0; i < 300; ++i) {
          const int64_t row = h * 300 + i;
          const bool sees = i >= poisoned;
          EXPECT_EQ(std::isnan(dirty.logsumexp[row]), sees) << "head " << h << " query " << i << " poison " << poisoned;
          for (int64_t d = 0; d < 64; ++d) {
            if (sees) {
              ASSERT_TRUE(std::isnan(dirty.output.Get(row * 64 + d)));
            } else {
              ASSERT_EQ(dirty.output.Get(row * 64 + d), clean.output.Get(row * 64 + d)) << i << " poison " << poisoned;
            }
          }
          if (sees) continue;
          ASSERT_EQ(std::memcmp(&dirty.weights[row * 300], &clean.weights[row * 300], 300 * sizeof(float)), 0);
        }
      }
    }
  }
}

// Only the element whose value is infinite or NaN, and only in rows that see it.
TEST_F(TiledAttentionTest, AValueThatIsNotFiniteReachesItsElementOfTheRowsThatSeeIt) {
  const AttentionProblem problem = MakeProblem(Causal(130, 130, CausalAlignment::kTopLeft));
  Inputs inputs(problem, 9);
  const Results clean = Compute(problem, inputs);
  inputs.value.Set(70 * 64 + 3, kInfinity);
  inputs.value.Set(90 * 64 + 4, kNan);
  const Results dirty = Compute(problem, inputs);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 130; ++i) {
      for (int64_t d = 0; d < 64; ++d) {
        const float value = dirty.output.Get((h * 130 + i) * 64 + d);
        if (d == 3 && i >= 70) {
          ASSERT_EQ(value, kInfinity) << i;
        } else if (d == 4 && i >= 90) {
          ASSERT_TRUE(std::isnan(value)) << i;
        } else {
          ASSERT_EQ(value, clean.output.Get((h * 130 + i) * 64 + d)) << i << " " << d;
        }
      }
    }
  }
}

TEST_F(TiledAttentionTest, RowsOfNothingFiniteAreNan) {
  Case c = Causal(2, 70, CausalAlignment::kNone, 16);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 10);
  for (int64_t j = 0; j < 70; ++j) inputs.key.Set(j * 16, -kInfinity);
  for (int64_t i = 0; i < 4; ++i) inputs.query.Set(i * 16, i < 2 ? 1.0f : -1.0f);  // scores -inf in head 0, +inf in 1
  const Results results = Compute(problem, inputs);
  for (int64_t i = 0; i < results.output.size(); ++i) ASSERT_TRUE(std::isnan(results.output.Get(i))) << i;
  for (const float w : results.weights) ASSERT_TRUE(std::isnan(w));
  for (const float l : results.logsumexp) ASSERT_TRUE(std::isnan(l));
}

// Scores near the largest float are numbers: equal ones get equal weights.
TEST_F(TiledAttentionTest, HugeScoresAreOrdinary) {
  for (const float scale : {1e30f, -1e30f}) {
    Case c = Causal(1, 300, CausalAlignment::kNone, 16);
    c.options.scale = scale;
    c.results.weights = true;
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 11);
    for (int64_t i = 0; i < inputs.query.size(); ++i) inputs.query.Set(i, i % 16 == 0 ? 1e4f : 0);
    for (int64_t j = 0; j < inputs.key.size(); ++j) inputs.key.Set(j, 3e4f);
    const Results results = Compute(problem, inputs);
    for (const float w : results.weights) ASSERT_NEAR(w, 1.0f / 300, 1e-9);
  }
}

TEST_F(TiledAttentionTest, QueriesWithoutKeysGetExactZeros) {
  Case c = Causal(40, 20, CausalAlignment::kBottomRight);
  c.shape.batch = 3;
  c.options.key_lengths = {20, 0, 7};
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 12);
  for (int64_t i = 0; i < inputs.value.size(); ++i) inputs.value.Set(i, i % 9 == 0 ? kNan : 1.0f);
  const Results results = Compute(problem, inputs, 2);
  int empty = 0;
  for (int64_t row = 0; row < 3 * 2 * 40; ++row) {
    if (problem.VisibleKeyEnd(row / 80, row % 40) > 0) continue;
    ++empty;
    ASSERT_EQ(results.logsumexp[row], -kInfinity);
    for (int64_t j = 0; j < 20; ++j) ASSERT_EQ(results.weights[row * 20 + j], 0);
    for (int64_t d = 0; d < 64; ++d) ASSERT_EQ(results.output.Get(row * 64 + d), 0);
  }
  EXPECT_EQ(empty, 2 * (20 + 40 + 33));
}

TEST_F(TiledAttentionTest, NoKeysAtAll) {
  Case c = Causal(5, 0, CausalAlignment::kNone);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 13);
  const Results results = Compute(problem, inputs, 2);
  for (int64_t i = 0; i < results.output.size(); ++i) ASSERT_EQ(results.output.Get(i), 0);
  for (const float l : results.logsumexp) ASSERT_EQ(l, -kInfinity);
}

// Legal, and must cost nothing per batch element.
TEST_F(TiledAttentionTest, HugeProblemsWithoutQueriesAreDoneAtOnce) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  for (const auto& [batch, queries, keys] : {std::tuple<int64_t, int64_t, int64_t>{int64_t{1} << 40, 0, 0},
                                             {0, 1 << 20, 1 << 20},
                                             {int64_t{1} << 40, 0, 5},
                                             {1, 0, int64_t{1} << 40}}) {
    Case c = Causal(queries, keys, CausalAlignment::kTopLeft, 16);
    c.shape.batch = batch;
    const AttentionProblem problem = MakeProblem(c);
    EXPECT_LT(PredictScratchBytes(problem, *kernels), 1 << 16);
    auto job = TiledAttention::Create(problem, {}, {}, *kernels);
    ASSERT_TRUE(job.ok());
    EXPECT_TRUE((*job)->finished());
    EXPECT_EQ((*job)->Step(1).outcome, TileSource::Outcome::kExhausted);
    EXPECT_TRUE((*job)->status().ok());
    EXPECT_EQ((*job)->parallelism(), 1);
  }
}

// A worker that comes before another has packed is told to come back, and everyone is told the end.
TEST_F(TiledAttentionTest, StepsTellWhatToDoNext) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  const AttentionProblem problem = MakeProblem(Causal(64, 256, CausalAlignment::kNone));
  Inputs inputs(problem, 14);
  Results results(problem);
  auto job = TiledAttention::Create(problem, {inputs.query.data(), inputs.key.data(), inputs.value.data()},
                                    {results.output.data(), nullptr, nullptr}, *kernels);
  ASSERT_TRUE(job.ok());
  omp_set_num_threads(1);
  const auto packed = (*job)->Step(0);
  EXPECT_EQ(packed.outcome, TileSource::Outcome::kAdvanced);
  EXPECT_TRUE(packed.packing);
  EXPECT_GT(packed.multiply_adds, 0);
  int tiles = 0;
  int64_t multiply_adds = 0;
  while (!(*job)->finished()) {
    const auto step = (*job)->Step(tiles % 2);
    ASSERT_EQ(step.outcome, TileSource::Outcome::kAdvanced);
    EXPECT_FALSE(step.packing);
    multiply_adds += step.multiply_adds;
    ++tiles;
  }
  EXPECT_EQ(tiles, (*job)->parallelism() == 2 ? 3 : 1) << "128 rows in blocks of 48";
  EXPECT_EQ(multiply_adds, (*job)->total_multiply_adds());
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_EQ((*job)->Step(worker).outcome, TileSource::Outcome::kExhausted);
  }
}

// One worker stands still with a claimed item at every possible moment; the others finish what they can.
TEST_F(TiledAttentionTest, AWorkerThatPausesBlocksNobodyForGood) {
  Case c = Causal(70, 300, CausalAlignment::kTopLeft);
  c.shape.batch = 4;
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 15);
  const Results expected = Compute(problem, inputs);
  BufferPool buffers(0);
  const auto kernels = MakeKernels(3, &buffers);
  omp_set_num_threads(1);
  for (int pause = 0; pause < 12; ++pause) {
    Results results(problem);
    auto job = TiledAttention::Create(problem, {inputs.query.data(), inputs.key.data(), inputs.value.data()},
                                      {results.output.data(), nullptr, nullptr}, *kernels);
    ASSERT_TRUE(job.ok());
    for (int i = 0; i < pause; ++i) (*job)->Step(2);
    bool exhausted[2] = {false, false};
    for (int i = 0; !(exhausted[0] && exhausted[1]); ++i) {
      ASSERT_LT(i, 10000);
      const auto outcome = (*job)->Step(i % 2).outcome;
      ASSERT_NE(outcome, TileSource::Outcome::kBlocked) << "nobody is packing";
      exhausted[i % 2] |= outcome == TileSource::Outcome::kExhausted;
    }
    while ((*job)->Step(2).outcome == TileSource::Outcome::kAdvanced) {
    }
    EXPECT_TRUE((*job)->finished());
    EXPECT_EQ(results.output.bytes(), expected.output.bytes());
  }
}

TEST_F(TiledAttentionTest, JobsSideBySideDoNotDisturbEachOther) {
  BufferPool buffers(int64_t{16} << 20);
  const auto kernels = MakeKernels(2, &buffers);
  const AttentionProblem first = MakeProblem(Causal(150, 260, CausalAlignment::kTopLeft));
  const AttentionProblem second = MakeProblem(Causal(90, 500, CausalAlignment::kNone, 33));
  Inputs first_inputs(first, 16), second_inputs(second, 17);
  const Results first_alone = Compute(first, first_inputs), second_alone = Compute(second, second_inputs);
  Results first_results(first), second_results(second);
  auto a =
      TiledAttention::Create(first, {first_inputs.query.data(), first_inputs.key.data(), first_inputs.value.data()},
                             {first_results.output.data(), nullptr, nullptr}, *kernels);
  auto b =
      TiledAttention::Create(second, {second_inputs.query.data(), second_inputs.key.data(), second_inputs.value.data()},
                             {second_results.output.data(), nullptr, nullptr}, *kernels);
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      omp_set_num_threads(1);
      while (!(*a)->finished() || !(*b)->finished()) {
        (*a)->Step(worker);
        (*b)->Step(worker);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first_results.output.bytes(), first_alone.output.bytes());
  EXPECT_EQ(second_results.output.bytes(), second_alone.output.bytes());
}

// What is predicted is never less than what is taken, and does not grow with the number of heads or queries.
TEST_F(TiledAttentionTest, ScratchIsBoundedAndConstant) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  const int64_t idle = buffers.used_bytes();
  omp_set_num_threads(1);
  const auto measure = [&](const Case& c) {
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 18);
    Results results(problem);
    auto job = TiledAttention::Create(problem, {inputs.query.data(), inputs.key.data(), inputs.value.data()},
                                      {results.output.data(), results.weights.data(), nullptr}, *kernels);
    EXPECT_TRUE(job.ok());
    const int64_t predicted = PredictScratchBytes(problem, *kernels);
    int64_t most = 0;
    for (int i = 0; !(*job)->finished(); ++i) {
      (*job)->Step(i % 2);
      most = std::max(most, buffers.used_bytes() - idle);
    }
    EXPECT_LE(most, predicted);
    EXPECT_GE(most, predicted / 3) << "a bound of use";
    return predicted;
  };
  Case c = Causal(500, 600, CausalAlignment::kNone);
  const int64_t base = measure(c);
  c.shape.query_length = 1100;
  EXPECT_LE(measure(c), base * 11 / 10) << "query blocks may grow to their full size";
  c.shape.query_length = 300;
  c.shape.query_heads = c.shape.kv_heads = 6;
  const int64_t heads = measure(c);
  c.shape.batch = 3;
  EXPECT_EQ(measure(c), heads);
  c.shape.head_dim = 17;
  c.type = ElementType::kFloat16;
  c.options.layout = Layout::kBNHD;
  c.results.weights = true;
  measure(c);
}

TEST_F(TiledAttentionTest, RunningOutOfMemoryIsReported) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(1, &buffers);
  Case c = Causal(1, int64_t{1} << 40, CausalAlignment::kNone, 1024);
  const AttentionProblem problem = MakeProblem(c);
  float unused = 0;
  auto job = TiledAttention::Create(problem, {&unused, &unused, &unused}, {&unused, nullptr, nullptr}, *kernels);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)->Step(0).outcome, TileSource::Outcome::kExhausted);
  EXPECT_TRUE((*job)->finished());
  EXPECT_EQ((*job)->status().code(), absl::StatusCode::kResourceExhausted) << (*job)->status();
}

}  // namespace
}  // namespace attend::core
