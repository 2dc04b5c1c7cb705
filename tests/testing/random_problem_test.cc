#include "tests/testing/random_problem.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::ScoreStage;

constexpr int64_t kMaxMultiplyAdds = int64_t{1} << 17;

TEST(RandomProblemTest, ASeedIsAProblem) {
  for (uint64_t seed : {1, 2, 3, 40}) {
    const ProblemInstance first = DrawProblem(seed, kMaxMultiplyAdds);
    const ProblemInstance again = DrawProblem(seed, kMaxMultiplyAdds);
    EXPECT_EQ(Describe(first.problem), Describe(again.problem));
    EXPECT_EQ(first.values.query, again.values.query);
    EXPECT_EQ(first.values.mask, again.values.mask);
    EXPECT_EQ(first.values.bias, again.values.bias);
    EXPECT_EQ(first.values.seed, seed);
  }
  EXPECT_NE(Describe(DrawProblem(1, kMaxMultiplyAdds).problem), Describe(DrawProblem(2, kMaxMultiplyAdds).problem));
}

// Every option and result comes, alone and with every other that may stand beside it.
TEST(RandomProblemTest, AllPairsOfOptionsComeUp) {
  const std::map<std::string, std::function<bool(const AttentionProblem&)>> kFeatures = {
      {"softcap", [](const auto& p) { return p.options().softcap > 0; }},
      {"causal", [](const auto& p) { return p.options().causal != core::CausalAlignment::kNone; }},
      {"query_offset", [](const auto& p) { return !p.options().query_offset.empty(); }},
      {"window_left", [](const auto& p) { return p.options().window_left >= 0; }},
      {"window_right", [](const auto& p) { return p.options().window_right >= 0; }},
      {"key_lengths", [](const auto& p) { return !p.options().key_lengths.empty(); }},
      {"mask", [](const auto& p) { return p.options().mask.has_value(); }},
      {"bias", [](const auto& p) { return p.options().bias.has_value(); }},
      {"alibi_slopes", [](const auto& p) { return !p.options().alibi_slopes.empty(); }},
      {"sinks", [](const auto& p) { return !p.options().sinks.empty(); }},
      {"compute_type", [](const auto& p) { return p.options().compute_type != core::ComputeType::kAsInputs; }},
      {"output_type", [](const auto& p) { return p.options().output_type.has_value(); }},
      {"weights", [](const auto& p) { return p.results().weights; }},
      {"rows", [](const auto& p) { return !p.results().weight_query_rows.empty(); }},
      {"averaged", [](const auto& p) { return p.results().average_weights_over_heads; }},
      {"scores", [](const auto& p) { return p.results().scores != ScoreStage::kNone; }},
      {"logsumexp", [](const auto& p) { return p.results().logsumexp; }},
      {"omit_output", [](const auto& p) { return p.results().omit_output; }},
  };
  std::map<std::string, int> count;
  int sequences = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const AttentionProblem problem = DrawProblem(seed, kMaxMultiplyAdds).problem;
    sequences += problem.options().layout == core::Layout::kTHD ? 1 : 0;
    for (const auto& [name, has] : kFeatures) {
      for (const auto& [other, has_other] : kFeatures)
        count[absl::StrCat(name, " and ", other)] += has(problem) && has_other(problem);
    }
  }
  EXPECT_GT(sequences, 150);
  for (const auto& [pair, times] : count) EXPECT_GT(times, 1) << pair;
}

TEST(RandomProblemTest, StartsCoverTheTotal) {
  Draw draw(7);
  for (int64_t count : {0, 1, 2, 9}) {
    const std::vector<int64_t> starts = DrawStarts(count, count == 0 ? 0 : 50, draw);
    ASSERT_EQ(starts.size(), count + 1);
    EXPECT_EQ(starts.front(), 0);
    EXPECT_EQ(starts.back(), count == 0 ? 0 : 50);
    EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end()));
  }
}

TEST(RandomProblemTest, BroadcastShapesHaveEveryRank) {
  Draw draw(8);
  std::map<size_t, int> ranks;
  for (int n = 0; n < 100; ++n) {
    const auto shape = DrawBroadcastShape({.batch = 2, .query_heads = 3, .query_length = 4, .key_length = 5}, draw);
    ++ranks[shape.size()];
    EXPECT_THAT(shape.back(), ::testing::AnyOf(1, 5));
  }
  EXPECT_EQ(ranks.size(), 3);
}

}  // namespace
}  // namespace attend::testing
