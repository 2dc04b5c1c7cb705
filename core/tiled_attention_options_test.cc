// Every option on tiles, against a plain double loop, and that no option's bits depend on how the work is cut. Larger
// problems, combinations and numbers that are not numbers are in tests/conformance.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/plain_attention.h"
#include "core/tiled_attention.h"
#include "core/tiled_attention_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

// Two batch elements, four query heads on two kv heads; several blocks of queries and keys.
Case Several(int64_t queries = 150, int64_t keys = 600) {
  Case c;
  c.shape = {.batch = 2,
             .query_heads = 4,
             .kv_heads = 2,
             .query_length = queries,
             .key_length = keys,
             .head_dim = 16,
             .value_dim = 24};
  c.results = {.weights = true, .logsumexp = true};
  return c;
}

struct NamedCase {
  std::string name;
  Case c;
};

template <class Change>
NamedCase Named(std::string name, Change change, Case c = Several()) {
  change(c);
  return {.name = std::move(name), .c = std::move(c)};
}

std::vector<NamedCase> Positions() {
  return {
      Named("window", [](Case& c) { c.options.window_left = 40, c.options.window_right = 30; }),
      Named("window to the left",
            [](Case& c) {
              c.options.causal = CausalAlignment::kBottomRight;
              c.options.window_left = 100;
            }),
      Named("window to the right", [](Case& c) { c.options.window_right = 0; }),
      Named("window of one", [](Case& c) { c.options.window_left = c.options.window_right = 0; }),
      Named("offset",
            [](Case& c) {
              c.options.causal = CausalAlignment::kTopLeft;
              c.options.query_offset = {-70, 333};
            }),
      Named("window, offset and lengths",
            [](Case& c) {
              c.options.query_offset = {300, 511};
              c.options.window_left = 63;
              c.options.window_right = 1;
              c.options.key_lengths = {590, 512};
            }),
      Named("window beyond the keys",
            [](Case& c) {
              c.options.query_offset = {-140, 590}, c.options.window_left = 5;
            }),
  };
}

std::vector<NamedCase> Transforms() {
  return {
      Named("softcap", [](Case& c) { c.options.softcap = 0.7f; }),
      Named("alibi",
            [](Case& c) {
              c.options.alibi_slopes = {0.01f, 0.02f, -0.01f, 0};
            }),
      Named("alibi with an offset",
            [](Case& c) {
              c.options.alibi_slopes = {0.1f, 0.2f, 0.3f, 0.4f};
              c.options.query_offset = {450, -20};
            }),
      Named("sinks",
            [](Case& c) {
              c.options.sinks = {0.5f, -kInfinity, 9, -50};
            }),
      Named("padding mask",
            [](Case& c) {
              c.options.mask = BroadcastTensor{.shape = {2, 1, 1, 600}};
            }),
      Named("mask by query",
            [](Case& c) {
              c.options.mask = BroadcastTensor{.shape = {150, 600}};
            }),
      Named("mask by head and query",
            [](Case& c) {
              c.options.mask = BroadcastTensor{.shape = {4, 150, 1}};
            }),
      Named("bias",
            [](Case& c) {
              c.options.bias = BroadcastTensor{.shape = {2, 4, 150, 600}};
            }),
      Named("bias by key in f16",
            [](Case& c) {
              c.options.bias = BroadcastTensor{.shape = {1, 600}, .type = ElementType::kFloat16};
            }),
      Named("everything",
            [](Case& c) {
              c.options.softcap = 2;
              c.options.causal = CausalAlignment::kBottomRight;
              c.options.window_left = 200;
              c.options.key_lengths = {600, 300};
              c.options.mask = BroadcastTensor{.shape = {150, 600}};
              c.options.bias = BroadcastTensor{.shape = {4, 1, 600}, .type = ElementType::kBFloat16};
              c.options.alibi_slopes = {0.01f, 0.02f, 0.03f, 0.04f};
              c.options.sinks = {0, 1, 2, 3};
            }),
  };
}

std::vector<NamedCase> Selections() {
  return {
      Named("scaled scores",
            [](Case& c) {
              c.options.softcap = 2;
              c.options.window_left = c.options.window_right = 20;
              c.options.key_lengths = {100, 0};
              c.results.scores = ScoreStage::kScaled;
            }),
      Named("softcapped scores",
            [](Case& c) {
              c.options.softcap = 2;
              c.options.mask = BroadcastTensor{.shape = {1, 600}};
              c.options.causal = CausalAlignment::kTopLeft;
              c.results.scores = ScoreStage::kSoftcapped;
            }),
      Named("masked scores",
            [](Case& c) {
              c.options.bias = BroadcastTensor{.shape = {150, 600}};
              c.options.window_left = 80;
              c.options.window_right = 300;
              c.results.scores = ScoreStage::kMasked;
            }),
      Named("some rows",
            [](Case& c) {
              c.options.causal = CausalAlignment::kTopLeft;
              c.results.scores = ScoreStage::kMasked;
              c.results.weight_query_rows = {149, 3, 70};
            }),
      Named("scores alone", [](Case& c) { c.results = {.scores = ScoreStage::kScaled, .omit_output = true}; }),
      Named("no output", [](Case& c) { c.results.omit_output = true; }),
      Named("f32 output",
            [](Case& c) {
              c.type = ElementType::kFloat16;
              c.options.output_type = ElementType::kFloat32;
            }),
      Named("bf16 products", [](Case& c) { c.options.compute_type = ComputeType::kBFloat16; }),
  };
}

std::vector<NamedCase> RaggedBatches() {
  const auto ragged = [](Case& c) {
    c.shape.batch = 5;
    c.options.layout = Layout::kTHD;
    c.options.query_starts = {0, 0, 100, 101, 101, 150};
    c.options.key_starts = {0, 20, 320, 320, 340, 600};
    c.results = {.logsumexp = true};
  };
  return {
      Named("sequences", ragged),
      Named("causal sequences",
            [&](Case& c) {
              ragged(c);
              c.options.causal = CausalAlignment::kBottomRight;
              c.options.window_left = 150;
              c.options.alibi_slopes = {0.01f, 0.02f, 0.03f, 0.04f};
              c.options.sinks = {1, -kInfinity, 0, 2};
            }),
      Named("sequences without output",
            [&](Case& c) {
              ragged(c);
              c.results.omit_output = true;
            }),
  };
}

std::vector<NamedCase> AllCases() {
  std::vector<NamedCase> all;
  for (const auto& cases : {Positions(), Transforms(), Selections(), RaggedBatches()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

TEST_F(TiledAttentionTest, EveryOptionAgreesWithThePlainLoop) {
  for (const NamedCase& named : AllCases()) {
    SCOPED_TRACE(named.name);
    const AttentionProblem problem = MakeProblem(named.c);
    Inputs inputs(problem, 31);
    ASSERT_NO_FATAL_FAILURE(ExpectCorrect(problem, inputs, Compute(problem, inputs, 2)));
  }
}

TEST_F(TiledAttentionTest, EveryOptionAgreesInBothLayoutsAndEveryType) {
  for (NamedCase named : AllCases()) {
    if (named.c.options.layout != Layout::kTHD) named.c.options.layout = Layout::kBNHD;
    if (named.c.options.compute_type == ComputeType::kBFloat16) continue;
    for (const ElementType type : {ElementType::kBFloat16, ElementType::kFloat16}) {
      SCOPED_TRACE(absl::StrCat(named.name, " ", ElementTypeName(type)));
      named.c.type = type;
      const AttentionProblem problem = MakeProblem(named.c);
      Inputs inputs(problem, 32);
      ASSERT_NO_FATAL_FAILURE(ExpectCorrect(problem, inputs, Compute(problem, inputs, 2)));
    }
  }
}

// Workers decide the size of query blocks, and so what each tile is trimmed to and which granules lead it.
TEST_F(TiledAttentionTest, NoOptionsBitsDependOnWorkers) {
  for (NamedCase named : AllCases()) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
      SCOPED_TRACE(absl::StrCat(named.name, " ", ElementTypeName(type)));
      named.c.type = type;
      named.c.options.output_type.reset();
      const AttentionProblem problem = MakeProblem(named.c);
      Inputs inputs(problem, 33);
      const Results one = Compute(problem, inputs, 1);
      for (const int workers : {2, 3, 7}) ExpectSameBits(one, Compute(problem, inputs, workers));
    }
  }
}

// One query at a time stands in tiles of its own, whatever comes before and after it in its window. (So it does not
// where it is decode.)
TEST_F(TiledAttentionTest, AWindowsBitsDependOnNoOtherQuery) {
  Case c = Causal(200, 900, CausalAlignment::kNone);
  c.shape.query_heads = 1;
  c.options.window_left = 300;
  c.options.window_right = 50;
  c.options.query_offset = {350};
  c.results.weights = true;
  const AttentionProblem together = MakeProblem(c);
  Inputs inputs(together, 34);
  const Results all = Compute(together, inputs);
  c.shape.query_length = 1;
  for (const int64_t i : {0, 1, 63, 64, 100, 127, 128, 199}) {
    c.options.query_offset = {350 + i};
    const AttentionProblem alone = MakeProblem(c);
    Inputs one(alone, 34);
    one.key = inputs.key;
    one.value = inputs.value;
    for (int64_t d = 0; d < 64; ++d) one.query.Set(d, inputs.query.Get(i * 64 + d));
    const Results result = Compute(alone, one, 1, /*tiles_only=*/true);
    for (int64_t d = 0; d < 64; ++d) ASSERT_EQ(result.output.Get(d), all.output.Get(i * 64 + d)) << i;
    for (int64_t j = 0; j < 900; ++j) ASSERT_EQ(result.weights[j], all.weights[i * 900 + j]) << i << " " << j;
  }
}

// One query head a kv head, many on one, more than rows of a tile: the additions have one order.
TEST_F(TiledAttentionTest, WeightsAreAveragedInOneOrder) {
  struct Heads {
    int64_t query, kv;
  };
  for (const Heads heads : {Heads{1, 1}, {4, 4}, {6, 2}, {5, 1}, {150, 1}, {300, 2}}) {
    for (const std::vector<int64_t>& rows : {std::vector<int64_t>{}, std::vector<int64_t>{6, 0}}) {
      SCOPED_TRACE(absl::StrCat(heads.query, " heads on ", heads.kv, " rows ", rows.size()));
      Case c = Several(9, 300);
      c.shape.query_heads = heads.query;
      c.shape.kv_heads = heads.kv;
      c.options.causal = CausalAlignment::kTopLeft;
      c.options.query_offset = {100, 291};
      c.results = {.weights = true, .weight_query_rows = rows};
      const AttentionProblem separate = MakeProblem(c);
      c.results.average_weights_over_heads = true;
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 35);
      const std::vector<float> weights = Compute(separate, inputs).weights;
      const int64_t part = problem.WeightRows() * 300;
      std::vector<float> average(2 * part);
      for (int64_t x = 0; x < 2 * part; ++x) {
        float sum = weights[x / part * heads.query * part + x % part];
        for (int64_t h = 1; h < heads.query; ++h) sum += weights[(x / part * heads.query + h) * part + x % part];
        average[x] = sum / static_cast<float>(heads.query);
      }
      for (const int workers : {1, 2, 3, 7}) {
        const std::vector<float> got = Compute(problem, inputs, workers).weights;
        for (size_t x = 0; x < got.size(); ++x) ASSERT_EQ(got[x], average[x]) << workers << " workers, element " << x;
      }
    }
  }
}

// Whether a key is not there because a mask says so or because it is not given.
TEST_F(TiledAttentionTest, EveryMaskThatExcludesTheSameGivesTheSameBits) {
  Case c = Causal(70, 400, CausalAlignment::kBottomRight);
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem causal = MakeProblem(c);
  Inputs inputs(causal, 36);
  const Results expected = Compute(causal, inputs);
  c.options = {.mask = BroadcastTensor{.shape = {70, 400}}};
  const AttentionProblem masked = MakeProblem(c);
  inputs.mask.assign(70 * 400, 0);
  for (int64_t x = 0; x < 70 * 400; ++x) inputs.mask[x] = x % 400 <= x / 400 + 330 ? 255 : 0;
  ExpectSameBits(expected, Compute(masked, inputs));
  c.options = {.bias = BroadcastTensor{.shape = {70, 400}}};
  const AttentionProblem biased = MakeProblem(c);
  inputs.bias = Tensor(ElementType::kFloat32, biased.BiasBytes());
  for (int64_t x = 0; x < 70 * 400; ++x) inputs.bias.Set(x, inputs.mask[x] != 0 ? 0 : -kInfinity);
  ExpectSameBits(expected, Compute(biased, inputs));
  c.options = {.query_offset = {330}, .window_right = 0};
  ExpectSameBits(expected, Compute(MakeProblem(c), inputs));
  // And the mask that excludes nothing.
  c.options = {};
  const AttentionProblem plain = MakeProblem(c);
  c.options.mask = BroadcastTensor{.shape = {1, 1}};
  inputs.mask = {1};
  ExpectSameBits(Compute(plain, inputs), Compute(MakeProblem(c), inputs));
}

TEST_F(TiledAttentionTest, AskingForWeightsScoresOrLessChangesNoBit) {
  Case c = Several();
  c.options.softcap = 3;
  c.options.mask = BroadcastTensor{.shape = {150, 600}};
  c.options.causal = CausalAlignment::kBottomRight;
  const AttentionProblem plain = MakeProblem(c);
  Inputs inputs(plain, 37);
  const Results expected = Compute(plain, inputs);
  for (const ScoreStage stage : {ScoreStage::kScaled, ScoreStage::kSoftcapped, ScoreStage::kMasked}) {
    c.results.scores = stage;
    const Results results = Compute(MakeProblem(c), inputs, 3);
    EXPECT_EQ(results.output.bytes(), expected.output.bytes());
    EXPECT_TRUE(SameBits(results.weights, expected.weights));
    EXPECT_TRUE(SameBits(results.logsumexp, expected.logsumexp));
  }
  c.results = {.weights = true, .logsumexp = true, .omit_output = true};
  const Results results = Compute(MakeProblem(c), inputs);
  EXPECT_TRUE(SameBits(results.weights, expected.weights));
  EXPECT_TRUE(SameBits(results.logsumexp, expected.logsumexp));
}

// Keys outside of every query's window are not even read: memory that is not there must not be touched, so the packed
// part is as small as the window.
TEST_F(TiledAttentionTest, MemoryFollowsTheWindowNotTheKeys) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers);
  Case c = Causal(64, 100'000, CausalAlignment::kBottomRight);
  const int64_t all = PredictScratchBytes(MakeProblem(c), *kernels);
  c.options.window_left = 500;
  EXPECT_LT(PredictScratchBytes(MakeProblem(c), *kernels), all / 20);
}

// Of [batch, heads, length, dim] in one layout, the same in another.
void Rearrange(const Tensor& from, const Strides& a, Tensor& to, const Strides& b,
               const std::array<int64_t, 4>& shape) {
  for (int64_t x = 0; x < from.size(); ++x) {
    const int64_t d = x % shape[3], i = x / shape[3] % shape[2], h = x / shape[3] / shape[2] % shape[1];
    const int64_t n = x / shape[3] / shape[2] / shape[1];
    to.Set(At(b, n, h, i, d), from.Get(At(a, n, h, i, d)));
  }
}

// Of few queries keys and values are read in place, if their rows are compact: those of a head in kBHND, not in kBNHD.
// What masks exclude holds NaN in both.
TEST_F(TiledAttentionTest, ReadInPlaceOrPackedTheBitsAreTheSame) {
  std::vector<NamedCase> cases = Positions();
  cases.push_back(Named("all keys", [](Case&) {}));
  cases.push_back(Named("mask", [](Case& c) { c.options.mask = BroadcastTensor{.shape = {64, 320}}; }));
  cases.push_back(Named("scores", [](Case& c) { c.results.scores = ScoreStage::kScaled; }));
  cases.push_back(Named("no output", [](Case& c) { c.results.omit_output = true; }));
  unsigned seed = 60;
  for (NamedCase& named : cases) {
    SCOPED_TRACE(testing::Message() << named.name << ", seed " << seed);
    Case& c = named.c;
    if (c.options.layout == Layout::kTHD) continue;
    c.shape = Several(64, 320).shape;
    c.shape.value_dim = 32;
    for (int64_t& length : c.options.key_lengths) length = std::min<int64_t>(length, 320);
    const AttentionProblem compact = MakeProblem(c);
    c.options.layout = Layout::kBNHD;
    const AttentionProblem apart = MakeProblem(c);
    Inputs in_place(compact, seed), packed(apart, seed++);
    for (int64_t j = 0; j < in_place.value.size(); j += 97) in_place.value.Set(j, kNan);
    Rearrange(in_place.query, compact.QueryStrides(), packed.query, apart.QueryStrides(), {2, 4, 64, 16});
    Rearrange(in_place.key, compact.KeyStrides(), packed.key, apart.KeyStrides(), {2, 2, 320, 16});
    Rearrange(in_place.value, compact.ValueStrides(), packed.value, apart.ValueStrides(), {2, 2, 320, 32});
    packed.mask = in_place.mask;
    const Results results = Compute(compact, in_place, 2);
    const Results expected = Compute(apart, packed);
    Results rearranged(compact);
    Rearrange(expected.output, apart.OutputStrides(), rearranged.output, compact.OutputStrides(), {2, 4, 64, 32});
    EXPECT_EQ(results.output.bytes(), rearranged.output.bytes());
    EXPECT_TRUE(SameBits(results.weights, expected.weights));
    EXPECT_TRUE(SameBits(results.scores, expected.scores));
  }
}

// Sequences of a ragged batch have the bits that they have alone.
TEST_F(TiledAttentionTest, ASequenceOfARaggedBatchHasTheBitsThatItHasAlone) {
  const NamedCase named = RaggedBatches()[1];
  const AttentionProblem batch = MakeProblem(named.c);
  Inputs inputs(batch, 38);
  const Results together = Compute(batch, inputs, 3);
  for (int64_t b = 0; b < batch.shape().batch; ++b) {
    Case c = named.c;
    c.shape.batch = 1;
    c.shape.query_length = batch.QueryCount(b);
    c.shape.key_length = batch.KeyCount(b);
    c.options.query_starts = {0, c.shape.query_length};
    c.options.key_starts = {0, c.shape.key_length};
    const AttentionProblem alone = MakeProblem(c);
    Inputs one(alone, 1);
    const auto copy = [](const Tensor& from, int64_t first, Tensor& to) {
      for (int64_t x = 0; x < to.size(); ++x) to.Set(x, from.Get(first + x));
    };
    copy(inputs.query, batch.QueryIndex(b, 0, 0), one.query);
    copy(inputs.key, batch.KeyIndex(b, 0, 0), one.key);
    copy(inputs.value, batch.ValueIndex(b, 0, 0), one.value);
    const Results result = Compute(alone, one);
    for (int64_t x = 0; x < result.output.size(); ++x) {
      ASSERT_EQ(result.output.Get(x), together.output.Get(batch.OutputIndex(b, 0, 0) + x)) << b << " " << x;
    }
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < c.shape.query_length; ++i) {
        ASSERT_EQ(result.logsumexp[alone.LogsumexpIndex(0, h, i)], together.logsumexp[batch.LogsumexpIndex(b, h, i)]);
      }
    }
  }
}

// By hand: two keys with scores 1 and 0 (q = 1, k = 1 and 0), values 1 and 3.
TEST_F(TiledAttentionTest, NumbersWorkedByHand) {
  const auto compute = [](const AttentionOptions& options, std::vector<float> bias = {}) {
    Case c;
    c.shape = {.query_length = 1, .key_length = 2, .head_dim = 1, .value_dim = 1};
    c.options = options;
    c.results = {.weights = true, .scores = ScoreStage::kMasked, .logsumexp = true};
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 1);
    inputs.query.Set(0, 1);
    inputs.key.Set(0, 1);
    inputs.key.Set(1, 0);
    inputs.value.Set(0, 1);
    inputs.value.Set(1, 3);
    for (size_t j = 0; j < bias.size(); ++j) inputs.bias.Set(static_cast<int64_t>(j), bias[j]);
    return Compute(problem, inputs);
  };
  // A sink of ln 2 beside scores of 0: 1 / (1 + 1 + 2).
  Results r = compute({.scale = 0.0f, .sinks = {0.69314718f}});
  EXPECT_NEAR(r.weights[0], 0.25, 1e-7);
  EXPECT_NEAR(r.output.Get(0), 1.0, 1e-6);
  EXPECT_NEAR(r.logsumexp[0], std::log(4.0), 1e-6);
  // Slope 1, query at position 1: scores 1 - 1 and 0 - 0.
  r = compute({.query_offset = {1}, .alibi_slopes = {1}});
  EXPECT_EQ(r.scores[0], 0);
  EXPECT_EQ(r.scores[1], 0);
  EXPECT_EQ(r.output.Get(0), 2);
  // 2 * tanh(1 / 2).
  r = compute({.softcap = 2});
  EXPECT_NEAR(r.scores[0], 0.924234315, 1e-6);
  // A bias of -1 makes both scores 0.
  r = compute({.bias = BroadcastTensor{.shape = {1, 2}}}, {-1, 0});
  EXPECT_EQ(r.output.Get(0), 2);
  r = compute({.bias = BroadcastTensor{.shape = {1, 2}}}, {-kInfinity, 0});
  EXPECT_EQ(r.output.Get(0), 3);
  EXPECT_EQ(r.scores[0], -kInfinity);
  EXPECT_EQ(r.weights[0], 0);
  // Nothing visible: the sink, and nothing else.
  r = compute({.bias = BroadcastTensor{.shape = {1, 1}}, .sinks = {0.5f}}, {-kInfinity});
  EXPECT_EQ(r.output.Get(0), 0);
  EXPECT_EQ(r.logsumexp[0], 0.5f);
  // Large finite negatives are just numbers.
  r = compute({.scale = 0.0f, .bias = BroadcastTensor{.shape = {1, 1}}}, {-3.4e38f});
  EXPECT_EQ(r.weights[0], 0.5f);
}

}  // namespace
}  // namespace attend::core
