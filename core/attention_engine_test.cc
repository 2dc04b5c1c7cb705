#include "core/attention_engine.h"

#include <cfenv>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "core/compute_pool.h"
#include "core/plain_attention.h"
#include "core/tiled_attention_fixture.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

std::unique_ptr<AttentionEngine> MakeEngine(int threads) {
  auto engine = AttentionEngine::Create({.threads = threads, .max_instruction_set = InstructionSetUnderTest()});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

Case Square(int64_t length, int64_t heads, ElementType type = ElementType::kFloat32) {
  Case c;
  c.shape = {.batch = 1,
             .query_heads = heads,
             .kv_heads = heads,
             .query_length = length,
             .key_length = length,
             .head_dim = 64,
             .value_dim = 64};
  c.type = type;
  return c;
}

// From one row to several key blocks, with and without options and further results.
std::vector<Case> Cases() {
  std::vector<Case> cases = {Square(1, 1),   Square(16, 1),  Square(128, 1),
                             Square(256, 8), Square(600, 2), Square(130, 3, ElementType::kBFloat16),
                             Square(0, 2)};
  cases.push_back(Causal(300, 300, CausalAlignment::kTopLeft));
  cases.push_back(Square(200, 4));
  cases.back().results = {.weights = true, .average_weights_over_heads = true, .logsumexp = true};
  return cases;
}

// As the server computes: submitted to a pool of three.
Results ThroughThePool(const AttentionProblem& problem, Inputs& inputs) {
  BufferPool buffers(int64_t{64} << 20);
  auto kernels =
      *TileKernels::Create({.workers = 3, .max_instruction_set = InstructionSetUnderTest(), .buffers = &buffers});
  Results results(problem);
  std::promise<bool> ok;
  {
    auto pool = *ComputePool::Create({.workers = 3});
    pool->Submit({.source = *TiledAttention::Create(problem, inputs.all(), results.all(), *kernels),
                  .done = [&](const absl::Status& status, const JobTimings&) { ok.set_value(status.ok()); }});
    EXPECT_TRUE(ok.get_future().get());
  }
  return results;
}

TEST(AttentionEngineTest, NeedsAThread) {
  EXPECT_EQ(AttentionEngine::Create({.threads = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AttentionEngineTest, ComputesAttention) {
  const auto engine = MakeEngine(2);
  EXPECT_EQ(engine->threads(), 2);
  const AttentionProblem problem = MakeProblem(Square(70, 2));
  Inputs inputs(problem, 1);
  Results results(problem);
  ASSERT_TRUE(engine->Compute(problem, inputs.all(), results.all()).ok());
  ExpectCorrect(problem, inputs, results);
}

TEST(AttentionEngineTest, HasTheBitsOfThePoolForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    const auto engine = MakeEngine(threads);
    unsigned seed = 10;
    for (const Case& c : Cases()) {
      SCOPED_TRACE(testing::Message() << threads << " threads, seed " << seed);
      const AttentionProblem problem = MakeProblem(c);
      Inputs inputs(problem, seed++);
      Results results(problem);
      ASSERT_TRUE(engine->Compute(problem, inputs.all(), results.all()).ok());
      ExpectSameBits(results, ThroughThePool(problem, inputs));
    }
  }
}

TEST(AttentionEngineTest, HasTheSameBitsWhateverTheCallersRounding) {
  const auto engine = MakeEngine(1);
  const AttentionProblem problem = MakeProblem(Square(100, 1));
  Inputs inputs(problem, 5);
  Results nearest(problem);
  ASSERT_TRUE(engine->Compute(problem, inputs.all(), nearest.all()).ok());
  std::fesetround(FE_UPWARD);
  Results upward(problem);
  const absl::Status status = engine->Compute(problem, inputs.all(), upward.all());
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(status.ok());
  ExpectSameBits(nearest, upward);
}

TEST(AttentionEngineTest, ServesManyThreadsAtOnce) {
  constexpr int kCallers = 4;
  constexpr int kRounds = 5;
  const auto engine = MakeEngine(2);
  std::vector<AttentionProblem> problems;
  std::vector<Inputs> inputs;
  std::vector<Results> expected;
  for (const Case& c : Cases()) {
    problems.push_back(MakeProblem(c));
    inputs.emplace_back(problems.back(), 77);
    expected.push_back(ThroughThePool(problems.back(), inputs.back()));
  }
  std::vector<std::thread> callers;
  for (int t = 0; t < kCallers; ++t) {
    callers.emplace_back([&, t] {
      for (size_t i = 0; i < kRounds * problems.size(); ++i) {
        const size_t which = (i + t) % problems.size();
        Results results(problems[which]);
        ASSERT_TRUE(engine->Compute(problems[which], inputs[which].all(), results.all()).ok());
        ExpectSameBits(results, expected[which]);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace attend::core
