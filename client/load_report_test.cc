#include "client/load_report.h"

#include <gtest/gtest.h>

namespace attend::client {
namespace {

LoopOutcome TwoSecondsOfCalls() {
  LoopOutcome outcome;
  for (int i = 0; i < 10; ++i) {
    outcome.measurement.Add({.status = absl::OkStatus(),
                             .server = {.receive = absl::Milliseconds(1),
                                        .queue = absl::Milliseconds(2),
                                        .pack = absl::Milliseconds(3),
                                        .compute = absl::Milliseconds(4 + i),
                                        .encode = absl::Milliseconds(5)},
                             .multiply_adds = 3'000'000'000,
                             .bytes = 4'000'000},
                            absl::Milliseconds(100 * (i + 1)));
  }
  outcome.measurement.Add({.status = absl::UnavailableError("gone")}, absl::Seconds(100));
  outcome.elapsed = absl::Seconds(2);
  outcome.unsent = 3;
  outcome.abandoned = 1;
  return outcome;
}

LengthFigures FiguresOf(const LoadOptions& options, int64_t length, const LoopOutcome& outcome) {
  return MakeLengthFigures(options, length, outcome, outcome.measurement);
}

TEST(LoadReport, RatesAreCountedOverTheElapsedTime) {
  LoadOptions options;
  options.batch = 2;
  const LengthFigures figures = FiguresOf(options, 512, TwoSecondsOfCalls());
  EXPECT_EQ(figures.key_length, 512);
  EXPECT_EQ(figures.query_length, 512);
  EXPECT_EQ(figures.ok, 10);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.unsent, 3);
  EXPECT_EQ(figures.abandoned, 1);
  EXPECT_DOUBLE_EQ(figures.requests_per_second, 5);
  EXPECT_DOUBLE_EQ(figures.tokens_per_second, 5 * 2 * 512);
  EXPECT_DOUBLE_EQ(figures.gflops, 2 * 3 * 10 / 2.0) << "a multiply-add is two operations";
  EXPECT_DOUBLE_EQ(figures.megabytes_per_second, 4 * 10 / 2.0);
  EXPECT_EQ(absl::ToInt64Milliseconds(figures.p50), 500);
  EXPECT_EQ(absl::ToInt64Milliseconds(figures.p90), 900);
  EXPECT_EQ(absl::ToInt64Milliseconds(figures.p99), 1000);
  EXPECT_EQ(absl::ToInt64Milliseconds(figures.max), 1000) << "failures have no latency";
  EXPECT_EQ(figures.server.receive, absl::Milliseconds(1));
  EXPECT_EQ(figures.server.compute, absl::Microseconds(8500));
}

TEST(LoadReport, TokensAreThoseOfTheQueries) {
  LoadOptions options;
  options.query_length = 1;
  EXPECT_DOUBLE_EQ(FiguresOf(options, 512, TwoSecondsOfCalls()).tokens_per_second, 5);
}

TEST(LoadReport, NothingMeasuredIsZero) {
  const LengthFigures figures = FiguresOf({}, 128, {});
  EXPECT_EQ(figures.ok, 0);
  EXPECT_EQ(figures.requests_per_second, 0);
  EXPECT_EQ(figures.p99, absl::ZeroDuration());
}

TEST(LoadReport, ErrorsText) {
  EXPECT_EQ(ErrorsText({}), "none");
  EXPECT_EQ(ErrorsText({{absl::StatusCode::kUnavailable, 3}, {absl::StatusCode::kResourceExhausted, 17}}),
            "RESOURCE_EXHAUSTED 17, UNAVAILABLE 3");
}

}  // namespace
}  // namespace attend::client
