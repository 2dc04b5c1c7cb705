#include "client/load_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <string>

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parses a command line; the message of what CLI11 refuses, else that of Validate.
std::string Parse(const std::string& line, LoadOptions& options) {
  CLI::App app;
  AddLoadOptions(app, options);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  const absl::Status status = options.Validate();
  return std::string(status.message());
}

std::string Refusal(const std::string& line) {
  LoadOptions options;
  return Parse(line, options);
}

TEST(LoadOptions, Defaults) {
  LoadOptions options;
  ASSERT_EQ(Parse("--lengths 128,256,512", options), "");
  EXPECT_THAT(options.lengths, ElementsAre(128, 256, 512));
  EXPECT_EQ(options.KvHeads(), 8);
  EXPECT_EQ(options.ValueDim(), 64);
  EXPECT_EQ(options.QueryLength(256), 256);
  EXPECT_EQ(options.InFlight(), 1);
  EXPECT_EQ(options.warmup, absl::Milliseconds(500));
  EXPECT_EQ(options.ProblemText(), "8 heads, dim 64, f32");
  EXPECT_EQ(options.LoadText(), "1 call in flight on 1 connection");
}

TEST(LoadOptions, EveryOption) {
  LoadOptions options;
  ASSERT_EQ(
      Parse("--lengths 128 --query_length 1 --batch 2 --heads 32 --kv_heads 4 --head_dim 576 --value_dim 512 "
            "--element_type bf16 --causal bottom_right --window_left 512 --window_right -1 --softcap 30 "
            "--compute_type bf16 --weights --seed 9 --connections 2 --rate 12.5 "
            "--max_in_flight 7 --duration 1m30s --warmup 0 --verify --verify_rows 5 --json a --csv b --chart c.svg",
            options),
      "");
  EXPECT_EQ(options.ProblemText(),
            "batch 2, 32 heads on 4, dim 576 and 512, bf16, causal bottom_right, window_left 512, window_right -1, "
            "softcap 30, bf16 products, query_length 1, with weights");
  EXPECT_EQ(options.LoadText(), "12.5 calls/s on 2 connections");
  EXPECT_EQ(options.QueryLength(128), 1);
  EXPECT_EQ(options.InFlight(), 7);
  EXPECT_EQ(options.duration, absl::Seconds(90));
  EXPECT_EQ(options.warmup, absl::ZeroDuration());
  EXPECT_EQ(options.verify_rows, 5);
  EXPECT_EQ(options.seed, 9u);
}

TEST(LoadOptions, AMixNamesItsLengths) {
  LoadOptions options;
  ASSERT_EQ(Parse("--mix 128:0.9,16384:0.1", options), "");
  EXPECT_THAT(options.lengths, ElementsAre(128, 16384));
  ASSERT_EQ(options.mix.size(), 2u);
  EXPECT_EQ(options.mix[1].length, 16384);
  EXPECT_DOUBLE_EQ(options.mix[1].share, 0.1);
}

TEST(LoadOptions, Refusals) {
  EXPECT_THAT(Refusal(""), HasSubstr("--lengths or --mix is required"));
  EXPECT_THAT(Refusal("--mix 128:0.9"), HasSubstr("'128:0.9' has one length"));
  EXPECT_THAT(Refusal("--mix 128:0.9,8:0"), HasSubstr("the share in '8:0' must be in [1e-06, 1e+06]"));
  EXPECT_THAT(Refusal("--mix 8:1,9:1 --lengths 8"), HasSubstr("--lengths excludes --mix"));
  EXPECT_THAT(Refusal("--lengths 0"), HasSubstr("at least 1"));
  EXPECT_THAT(Refusal("--lengths 128,x"), HasSubstr("'x'"));
  EXPECT_THAT(Refusal("--lengths 8,,9"), HasSubstr("'8,,9' has an empty element"));
  EXPECT_THAT(Refusal("--lengths 8,"), HasSubstr("empty element"));
  EXPECT_THAT(Refusal("--lengths ,"), HasSubstr("empty element"));
  EXPECT_THAT(Refusal("--lengths 8,99999999999999999999"), HasSubstr("at most 9223372036854775807"));
  EXPECT_THAT(Refusal("--lengths 1e3"), HasSubstr("'1e3' is not a whole number"));
  EXPECT_THAT(Refusal("--lengths 8 --seed 99999999999999999999"), HasSubstr("at most 18446744073709551615"));
  EXPECT_THAT(Refusal("--lengths 8 --heads 99999999999999999999"), HasSubstr("at most 9223372036854775807"));
  EXPECT_THAT(Refusal("--lengths 8 --connections 4294967297"), HasSubstr("at most 2147483647"));
  for (const char* rate : {"inf", "1e300", "nan", "100001"}) {
    EXPECT_THAT(Refusal(std::string("--lengths 8 --rate ") + rate), HasSubstr("at least 0.001 and at most 100000"));
  }
  EXPECT_THAT(Refusal("--lengths 8 --rate 5 --concurrency 2"), HasSubstr("excludes"));
  EXPECT_THAT(Refusal("--lengths 8 --count 5 --duration 2s"), HasSubstr("excludes"));
  EXPECT_THAT(Refusal("--lengths 8 --max_in_flight 5"), HasSubstr("requires"));
  EXPECT_THAT(Refusal("--lengths 8 --verify_rows 5"), HasSubstr("requires"));
  EXPECT_THAT(Refusal("--lengths 8 --duration 0s"), HasSubstr("not a duration"));
  EXPECT_THAT(Refusal("--lengths 8 --duration soon"), HasSubstr("not a duration"));
  EXPECT_THAT(Refusal("--lengths 8 --rate 0"), HasSubstr("at least"));
  EXPECT_THAT(Refusal("--lengths 8 --kv_heads 3"), HasSubstr("must be a divisor of --heads, 8"));
  EXPECT_THAT(Refusal("--lengths 8 --chart load.jpg"), HasSubstr("must end in .svg or .png"));
  EXPECT_THAT(Refusal("--lengths 8 --json x --csv x"), HasSubstr("named for two reports"));
  EXPECT_THAT(Refusal("--lengths 8 --element_type f8"), HasSubstr("not one of f32|bf16|f16"));
}

}  // namespace
}  // namespace attend::client
