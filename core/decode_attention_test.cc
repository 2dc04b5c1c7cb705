// Problems with few query rows: right, the same bits whatever the workers, in a constant amount of memory.
#include "core/decode_attention.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/plain_attention.h"
#include "core/tiled_attention.h"
#include "core/tiled_attention_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16};

class DecodeAttentionTest : public TiledAttentionTest {
 protected:
  static Results Compute(const AttentionProblem& problem, Inputs& inputs, int workers = 1) {
    return TiledAttentionTest::Compute(problem, inputs, workers, /*tiles_only=*/false);
  }
};

struct Rows {
  int64_t queries, group;
};

Case Decode(const Rows& rows, int64_t keys, int64_t head_dim = 64, int64_t value_dim = 64) {
  Case c;
  c.shape = {.batch = 2,
             .query_heads = 2 * rows.group,
             .kv_heads = 2,
             .query_length = rows.queries,
             .key_length = keys,
             .head_dim = head_dim,
             .value_dim = value_dim};
  return c;
}

TEST_F(DecodeAttentionTest, TakesElementsByTheirRows) {
  for (const auto& [queries, group, taken] : {std::tuple<int64_t, int64_t, bool>{1, 1, true},
                                              {16, 1, true},
                                              {1, 16, true},
                                              {4, 4, true},
                                              {5, 3, true},
                                              {17, 1, false},
                                              {1, 17, false},
                                              {3, 6, false},
                                              {0, 1, false}}) {
    const AttentionProblem problem = MakeProblem(Decode({queries, group}, 100));
    const DecodeSplits splits(problem);
    EXPECT_EQ(DecodeSplits::Takes(problem, 1), taken) << queries << " " << group;
    EXPECT_EQ(splits.Rows(1), taken ? queries * group : 0);
    EXPECT_EQ(splits.heads(), taken ? 4 : 0);
    EXPECT_EQ(splits.takes_all(), taken || queries == 0);
  }
}

// At absolute multiples of a length that the number of keys decides, so that a window moves no boundary.
TEST_F(DecodeAttentionTest, SplitsAreOfAMultipleOfAPiece) {
  Case c = Decode({1, 1}, 100'000);
  c.shape.batch = 1;
  c.options.query_offset = {70'000};
  c.options.window_left = 5000;
  c.options.window_right = 600;
  const AttentionProblem problem = MakeProblem(c);
  const DecodeSplits splits(problem);
  constexpr int64_t kLength = 4 * kDecodePiece;  // 196 pieces in at most 64 splits
  ASSERT_EQ(splits.Count(0), 4);
  int64_t begin = 65'000 / kKeyGranule * kKeyGranule;
  for (int64_t s = 0; s < 4; ++s) {
    const KeyRange keys = splits.Keys(0, s);
    EXPECT_EQ(keys.begin, begin);
    EXPECT_EQ(keys.end, s == 3 ? 70'601 : (begin / kLength + 1) * kLength);
    begin = keys.end;
  }
  EXPECT_LE(DecodeSplits(MakeProblem(Decode({1, 1}, int64_t{1} << 40))).Count(0), kMaxDecodeSplits);
  EXPECT_EQ(DecodeSplits(MakeProblem(Decode({1, 1}, 0))).Count(0), 1);
}

TEST_F(DecodeAttentionTest, AgreesWithThePlainLoop) {
  const Rows all_rows[] = {{1, 1}, {1, 8}, {2, 1}, {3, 1}, {1, 5}, {2, 3}, {1, 7}, {13, 1}, {1, 16}, {4, 4}};
  const int64_t keys[] = {1, 63, 64, 129, 700, 1100};
  const Rows dims[] = {{1, 1}, {3, 40}, {33, 5}, {80, 112}, {128, 64}, {24, 300}};
  int n = 0;
  for (const Rows& rows : all_rows) {
    for (const int64_t count : keys) {
      Case c = Decode(rows, count, dims[n % 6].queries, dims[n % 6].group);
      c.type = kTypes[n % 3];
      c.options.layout = n % 2 == 0 ? Layout::kBHND : Layout::kBNHD;
      c.options.causal = n % 4 == 1 ? CausalAlignment::kBottomRight : CausalAlignment::kNone;
      if (n % 4 == 2) c.options.window_left = c.options.window_right = 40;
      if (n % 4 == 2) c.options.query_offset = {count / 2, count - 1};
      if (n % 5 == 0) c.options.mask = BroadcastTensor{.shape = {rows.queries, count}};
      if (n % 5 == 1) c.options.key_lengths = {count, count / 2};
      if (n % 7 == 0) c.options.softcap = 2;
      if (n % 7 == 1) c.options.bias = BroadcastTensor{.shape = {1, count}, .type = c.type};
      if (n % 7 == 2) c.options.alibi_slopes.assign(c.shape.query_heads, 0.1F);
      if (n % 7 == 3) c.options.sinks.assign(c.shape.query_heads, 0.3F);
      c.results = {
          .weights = true, .scores = n % 2 == 0 ? ScoreStage::kMasked : ScoreStage::kScaled, .logsumexp = true};
      const AttentionProblem problem = MakeProblem(c);
      SCOPED_TRACE(absl::StrCat("case ", n, ": ", rows.queries, " queries, group ", rows.group, ", ", count, " keys"));
      Inputs inputs(problem, ++n);
      ExpectCorrect(problem, inputs, Compute(problem, inputs, n % 3 + 1));
      if (HasFatalFailure()) return;
    }
  }
}

// More keys than splits of one piece hold.
TEST_F(DecodeAttentionTest, ManyKeys) {
  for (const ElementType type : kTypes) {
    Case c = Decode({1, 2}, kMaxDecodeSplits * kDecodePiece + 700, 16, 8);
    c.type = type;
    c.results.logsumexp = true;
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 1);
    const Results one = Compute(problem, inputs);
    ExpectCorrect(problem, inputs, one);
    for (const int workers : {2, 5}) ExpectSameBits(one, Compute(problem, inputs, workers));
  }
}

TEST_F(DecodeAttentionTest, SameBitsForAnyNumberOfWorkersAndResults) {
  for (const ElementType type : kTypes) {
    Case c = Decode({3, 4}, 2900, 80, 33);
    c.type = type;
    c.options.causal = CausalAlignment::kBottomRight;
    c.results = {.weights = true, .average_weights_over_heads = true, .scores = ScoreStage::kScaled, .logsumexp = true};
    const AttentionProblem problem = MakeProblem(c);
    Inputs inputs(problem, 2);
    const Results one = Compute(problem, inputs);
    for (const int workers : {2, 3, 8}) ExpectSameBits(one, Compute(problem, inputs, workers));
    c.results = {};
    EXPECT_EQ(Compute(MakeProblem(c), inputs, 2).output.bytes(), one.output.bytes());
    c.results = {.logsumexp = true, .omit_output = true};
    EXPECT_TRUE(SameBits(Compute(MakeProblem(c), inputs, 2).logsumexp, one.logsumexp));
  }
}

// Padding, masks and windows that say the same give the same bits.
TEST_F(DecodeAttentionTest, SameBitsWhateverHidesAKey) {
  Case c = Decode({1, 4}, 1500);
  c.results = {.weights = true, .logsumexp = true};
  c.options = {.key_lengths = {1030, 1030}};
  const AttentionProblem padded = MakeProblem(c);
  Inputs inputs(padded, 3);
  const Results expected = Compute(padded, inputs, 2);
  c.options = {.mask = BroadcastTensor{.shape = {1, 1500}}};
  inputs.mask.assign(1500, 0);
  std::fill_n(inputs.mask.begin(), 1030, 1);
  ExpectSameBits(expected, Compute(MakeProblem(c), inputs, 2));
  c.options = {.query_offset = {1029, 1029}, .window_right = 0};
  ExpectSameBits(expected, Compute(MakeProblem(c), inputs, 2));
  // What is hidden is not looked at.
  for (int64_t x = 0; x < inputs.key.size(); ++x) {
    if (x / 64 % 1500 < 1030) continue;
    inputs.key.Set(x, kNan);
    inputs.value.Set(x, x % 2 == 0 ? kNan : kInfinity);
  }
  ExpectSameBits(expected, Compute(MakeProblem(c), inputs, 2));
  ExpectSameBits(expected, Compute(padded, inputs, 2));
}

// A row may see keys of the first split alone, or of the last, or of none.
TEST_F(DecodeAttentionTest, RowsThatSeeNothingOfSomeSplits) {
  constexpr int64_t kKeys = 3 * kDecodePiece;
  Case c = Decode({4, 1}, kKeys);
  c.options = {.mask = BroadcastTensor{.shape = {4, kKeys}}};
  c.results = {.weights = true, .logsumexp = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 12);
  for (int64_t x = 0; x < 4 * kKeys; ++x) inputs.mask[x] = x / kKeys < 3 && x % kKeys / kDecodePiece == x / kKeys;
  ExpectCorrect(problem, inputs, Compute(problem, inputs, 2));
}

// Outputs are the same but for the elements x that `changed` names, of which check(output, x) is told.
template <class Changed, class Check>
void ExpectChanged(const Results& before, const Results& after, const Changed& changed, const Check& check) {
  for (int64_t x = 0; x < before.output.size(); ++x) {
    if (changed(x)) {
      check(after.output.Get(x), x);
    } else {
      ASSERT_EQ(before.output.Get(x), after.output.Get(x)) << x;
    }
  }
}

// A value that is not finite reaches the rows that see its key, and changes no bit of the others.
TEST_F(DecodeAttentionTest, ValuesThatARowDoesNotSeeDoNotReachIt) {
  for (const ElementType type : kTypes) {
    for (const float number : {kNan, kInfinity, -kInfinity}) {
      Case c = Decode({5, 1}, 300);
      c.type = type;
      c.shape.batch = c.shape.kv_heads = c.shape.query_heads = 1;
      c.options = {.mask = BroadcastTensor{.shape = {5, 300}}};
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 4);
      for (int64_t i = 0; i < 5; ++i) inputs.mask[i * 300 + 70] = i == 2;
      const Results finite = Compute(problem, inputs);
      inputs.value.Set(70 * 64 + 9, number);
      ExpectChanged(
          finite, Compute(problem, inputs), [](int64_t x) { return x == 2 * 64 + 9; },
          [](float output, int64_t x) { EXPECT_FALSE(std::isfinite(output)) << x; });
    }
  }
}

// Means of values that are near the largest float, though their sum is beyond it: in one split, and of several.
TEST_F(DecodeAttentionTest, SumsThatOverflowAreMeans) {
  constexpr float kHuge = 0x1.8p127F;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const int64_t keys : {90, 1300}) {
      Case c = Decode({1, 2}, keys);
      c.type = type;
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, 5);
      const Results before = Compute(problem, inputs);
      for (int64_t x = 3; x < inputs.value.size(); x += 64) inputs.value.Set(x, kHuge);
      ExpectChanged(
          before, Compute(problem, inputs, 2), [](int64_t x) { return x % 64 == 3; },
          [&](float output, int64_t x) { ASSERT_NEAR(output / kHuge, 1, 1e-5) << x; });
    }
  }
}

// `compute_type` BF16 rounds all four factors of the products, where the processor has such products.
TEST_F(DecodeAttentionTest, BFloat16ProductsRoundTheirFactors) {
  constexpr int64_t kKeys = 70;
  Case c = Decode({1, 2}, kKeys, 40, kKeys);
  c.results = {.weights = true, .scores = ScoreStage::kScaled, .logsumexp = true};
  const AttentionProblem exact = MakeProblem(c);
  c.options.compute_type = ComputeType::kBFloat16;
  const AttentionProblem rounding = MakeProblem(c);
  Inputs inputs(exact, 10);
  // Output [j] is the weight that key j's value was multiplied with.
  for (int64_t x = 0; x < inputs.value.size(); ++x) inputs.value.Set(x, x / kKeys % kKeys == x % kKeys ? 1 : 0);
  const Results results = Compute(rounding, inputs);
  BufferPool buffers(0);
  const std::vector<ElementType> native = MakeKernels(1, &buffers)->native_types();
  if (std::find(native.begin(), native.end(), ElementType::kBFloat16) == native.end()) {
    ExpectSameBits(Compute(exact, inputs), results);
    return;
  }
  int rounded = 0;
  for (int64_t x = 0; x < results.output.size(); ++x) {
    const float weight = results.weights[x];
    ASSERT_NEAR(results.output.Get(x), weight, 0x1p-8 * weight) << x;
    if (std::abs(results.output.Get(x) - weight) > 0x1p-11 * weight) ++rounded;
  }
  EXPECT_GT(rounded, results.output.size() / 4) << "weights";
  for (Tensor* tensor : {&inputs.query, &inputs.key}) {
    const Results before = Compute(rounding, inputs);
    EXPECT_FALSE(SameBits(Compute(exact, inputs).scores, before.scores));
    for (int64_t x = 0; x < tensor->size(); ++x) tensor->Set(x, BFloat16ToFloat(FloatToBFloat16(tensor->Get(x))));
    ExpectSameBits(before, Compute(rounding, inputs));
  }
  inputs.value.Set(0, 1 + 0x1p-9F);
  ExpectSameBits(results, Compute(rounding, inputs));
}

// A value that rounds to infinity is none of the rows' that do not see it.
TEST_F(DecodeAttentionTest, ValuesThatRoundToInfinityDoNotReachRowsThatDoNotSeeThem) {
  Case c = Decode({2, 1}, 300);
  c.options = {.mask = BroadcastTensor{.shape = {2, 300}}, .compute_type = ComputeType::kBFloat16};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 11);
  for (int64_t i = 0; i < 2; ++i) inputs.mask[i * 300 + 70] = i == 0;
  const Results before = Compute(problem, inputs);
  for (int64_t head = 0; head < 4; ++head) inputs.value.Set((head * 300 + 70) * 64 + 9, 3.4e38F);
  ExpectChanged(
      before, Compute(problem, inputs), [](int64_t x) { return x % 128 == 9; },
      [](float output, int64_t x) { EXPECT_GT(output, 1e30F) << x; });
}

// One decode step, a prompt, nothing, and a few speculated tokens in one batch: each as it is alone.
TEST_F(DecodeAttentionTest, SequencesOfBothKindsInOneBatch) {
  Case c;
  c.shape = {.batch = 4,
             .query_heads = 4,
             .kv_heads = 2,
             .query_length = 54,
             .key_length = 1900,
             .head_dim = 40,
             .value_dim = 24};
  c.options = {.layout = Layout::kTHD,
               .causal = CausalAlignment::kBottomRight,
               .query_starts = {0, 1, 50, 50, 54},
               .key_starts = {0, 1100, 1200, 1300, 1900}};
  c.results.logsumexp = true;
  const AttentionProblem batch = MakeProblem(c);
  Inputs inputs(batch, 6);
  const Results together = Compute(batch, inputs, 3);
  ExpectCorrect(batch, inputs, together);
  ExpectSameBits(together, Compute(batch, inputs, 1));
  for (int64_t b = 0; b < 4; ++b) {
    Case one = c;
    one.shape.batch = 1;
    one.shape.query_length = batch.QueryCount(b);
    one.shape.key_length = batch.KeyCount(b);
    one.options.query_starts = {0, one.shape.query_length};
    one.options.key_starts = {0, one.shape.key_length};
    const AttentionProblem alone = MakeProblem(one);
    EXPECT_EQ(DecodeSplits(alone).heads() > 0, b == 0 || b == 3);
    Inputs part(alone, 1);
    const auto copy = [](const Tensor& from, int64_t first, Tensor& to) {
      for (int64_t x = 0; x < to.size(); ++x) to.Set(x, from.Get(first + x));
    };
    copy(inputs.query, batch.QueryIndex(b, 0, 0), part.query);
    copy(inputs.key, batch.KeyIndex(b, 0, 0), part.key);
    copy(inputs.value, batch.ValueIndex(b, 0, 0), part.value);
    const Results result = Compute(alone, part, 2);
    for (int64_t x = 0; x < result.output.size(); ++x) {
      ASSERT_EQ(result.output.Get(x), together.output.Get(batch.OutputIndex(b, 0, 0) + x)) << b << " " << x;
    }
  }
}

TEST_F(DecodeAttentionTest, NothingIsPackedAndEveryStepIsAPiece) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers, /*tiles_only=*/false);
  const AttentionProblem problem = MakeProblem(Decode({1, 4}, 1300));
  Inputs inputs(problem, 7);
  Results results(problem);
  auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)->parallelism(), 2);
  int steps = 0;
  int64_t multiply_adds = 0;
  for (; !(*job)->finished(); ++steps) {
    const auto step = (*job)->Step(steps % 2);
    ASSERT_EQ(step.outcome, TileSource::Outcome::kAdvanced);
    EXPECT_FALSE(step.packing);
    multiply_adds += step.multiply_adds;
  }
  EXPECT_EQ(steps, 4 * 3) << "four heads, three pieces of 512 keys";
  EXPECT_EQ(multiply_adds, (*job)->total_multiply_adds());
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_EQ((*job)->Step(worker).outcome, TileSource::Outcome::kExhausted);
  }
}

// One worker stands still with what it took at every possible moment; the others finish what they can.
TEST_F(DecodeAttentionTest, AWorkerThatPausesBlocksNobodyForGood) {
  Case c = Decode({1, 2}, 2100, 16, 16);
  c.results = {.weights = true};
  const AttentionProblem problem = MakeProblem(c);
  Inputs inputs(problem, 8);
  const Results expected = Compute(problem, inputs);
  BufferPool buffers(0);
  const auto kernels = MakeKernels(3, &buffers, /*tiles_only=*/false);
  omp_set_num_threads(1);
  for (int pause = 0; pause < 20; ++pause) {
    Results results(problem);
    auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
    ASSERT_TRUE(job.ok());
    for (int i = 0; i < pause; ++i) (*job)->Step(2);
    bool exhausted[2] = {false, false};
    for (int i = 0; !(exhausted[0] && exhausted[1]); ++i) {
      ASSERT_LT(i, 10000);
      exhausted[i % 2] |= (*job)->Step(i % 2).outcome == TileSource::Outcome::kExhausted;
    }
    while ((*job)->Step(2).outcome == TileSource::Outcome::kAdvanced) {
    }
    EXPECT_TRUE((*job)->finished());
    ExpectSameBits(results, expected);
  }
}

// What is predicted is never less than what is taken, and grows with neither heads nor, beyond the splits, keys.
TEST_F(DecodeAttentionTest, ScratchIsBoundedAndConstant) {
  BufferPool buffers(0);
  const auto kernels = MakeKernels(2, &buffers, /*tiles_only=*/false);
  const int64_t idle = buffers.used_bytes();
  Case c = Decode({1, 8}, 3000, 512, 1024);
  const AttentionProblem problem = MakeProblem(c);
  const int64_t predicted = PredictScratchBytes(problem, *kernels);
  Inputs inputs(problem, 9);
  Results results(problem);
  auto job = TiledAttention::Create(problem, inputs.all(), results.all(), *kernels);
  ASSERT_TRUE(job.ok());
  int64_t most = 0;
  for (int i = 0; !(*job)->finished(); ++i) {
    (*job)->Step(i % 2);
    most = std::max(most, buffers.used_bytes() - idle);
  }
  EXPECT_LE(most, predicted);
  EXPECT_GE(most, predicted / 3) << "a bound of use";
  const auto scratch = [&](int64_t batch, int64_t keys) {
    c.shape.batch = batch;
    c.shape.key_length = keys;
    return PredictScratchBytes(MakeProblem(c), *kernels);
  };
  EXPECT_EQ(scratch(64, 3000), predicted);
  EXPECT_EQ(scratch(2, 1 << 30), scratch(8, kMaxDecodeSplits * kDecodePiece));
  EXPECT_LT(scratch(2, 1 << 30), 2 * kMaxDecodeSplits * 8 * 1024 * 4 * 5 / 4);
}

}  // namespace
}  // namespace attend::core
