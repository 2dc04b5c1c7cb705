#include "client/load_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/example_report.h"

namespace attend::client {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The cells of the lines that start with `first`.
std::vector<std::vector<std::string>> Rows(const std::string& text, const std::string& first) {
  std::vector<std::vector<std::string>> rows;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    std::vector<std::string> cells = absl::StrSplit(line, absl::ByAnyChar(" "), absl::SkipEmpty());
    if (!cells.empty() && cells[0] == first) rows.push_back(std::move(cells));
  }
  return rows;
}

TEST(LoadTable, HasALineForEachLengthInBothTables) {
  const std::string text = LoadTable(ExampleReport());
  EXPECT_THAT(text, HasSubstr("Attention at 127.0.0.1:8001: 8 heads, dim 64, f32, causal top_left\n4 calls in flight "
                              "on 1 connection; attend-server 0.1.0, avx512, 2 compute threads\n"));
  EXPECT_THAT(Rows(text, "128"),
              ElementsAre(ElementsAre("128", "1000", "250", "32000", "8.39", "262", "1.25", "1.50", "2.75", "12.0"),
                          ElementsAre("128", "1.30", "0.200", "0.030", "0.040", "0.500", "0.060", "0.470", "none")));
  EXPECT_THAT(Rows(text, "2048")[1], Contains("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(text, HasSubstr("length 2048: 5 x RESOURCE_EXHAUSTED: max_queued_requests is 512\n"));
  EXPECT_THAT(text, Not(HasSubstr("Interrupted")));
  EXPECT_THAT(text, Not(HasSubstr("verified")));
}

TEST(LoadTable, IsNarrow) {
  for (const LoadReport& report : {ExampleReport(), ExampleMixReport()}) {
    for (const absl::string_view line : absl::StrSplit(LoadTable(report), '\n')) {
      EXPECT_LE(line.size(), 120u) << line;
    }
  }
}

TEST(LoadTable, PutsTheMixBesideTheLengthsAlone) {
  LoadReport report = ExampleMixReport();
  EXPECT_THAT(LoadTable(ExampleReport()), Not(HasSubstr("Beside each other")));
  EXPECT_THAT(LoadTable(report), HasSubstr("Beside each other, in one load:\n"));
  EXPECT_THAT(Rows(LoadTable(report), "128")[2],
              ElementsAre("128", "0.900", "90", "22.5", "2.50", "11.0", "1.25", "2.75", "2.00", "4.00", "none"));
  EXPECT_THAT(Rows(LoadTable(report), "2048")[2], Contains("RESOURCE_EXHAUSTED"));
  report.mix[0].figures.ok = 0;
  EXPECT_THAT(Rows(LoadTable(report), "128")[2],
              ElementsAre("128", "0.900", "0", "22.5", "-", "-", "1.25", "2.75", "-", "-", "none"));
}

TEST(LoadTable, SaysWhatWasUnusualInTheMix) {
  LoadReport report = ExampleMixReport();
  report.mix_unsent = 5;
  report.mix_abandoned = 6;
  report.mix[0].figures.verification = Verification{.rows = 32, .total_rows = 1024, .worst = {}};
  const std::string text = LoadTable(report);
  EXPECT_THAT(text, HasSubstr("mix, length 2048: 5 x RESOURCE_EXHAUSTED: max_queued_requests is 512\n"));
  EXPECT_THAT(text, HasSubstr("mix, length 128: verified: 32 of 1024 rows"));
  EXPECT_THAT(text, HasSubstr("mix: due and not sent, for too many were in flight: 5\n"));
  EXPECT_THAT(text, HasSubstr("mix: cancelled in flight: 6\n"));
}

TEST(LoadTable, SaysWhatWasUnusual) {
  LoadReport report = ExampleReport();
  report.interrupted = true;
  report.lengths[0].unsent = 12;
  report.lengths[1].abandoned = 4;
  report.lengths[0].verification = Verification{.rows = 32, .total_rows = 1024, .worst = {}};
  report.lengths[1].verification = report.lengths[0].verification;
  report.lengths[1].differing_answers = 2;
  const std::string text = LoadTable(report);
  EXPECT_THAT(text, HasSubstr("Interrupted"));
  EXPECT_THAT(text, HasSubstr("length 128: due and not sent, for too many were in flight: 12\n"));
  EXPECT_THAT(text, HasSubstr("length 2048: cancelled in flight: 4\n"));
  EXPECT_THAT(text, HasSubstr("length 128: verified: 32 of 1024 rows"));
  EXPECT_THAT(text, HasSubstr("length 2048: WRONG: 32 of 1024 rows; 2 of 40 answers have other bits"));
}

TEST(LoadTable, ALengthWithoutAnswersHasNoFigures) {
  LoadReport report = ExampleReport();
  report.lengths[1].ok = 0;
  EXPECT_THAT(Rows(LoadTable(report), "2048"),
              ElementsAre(ElementsAre("2048", "0", "-", "-", "-", "-", "-", "-", "-", "-"),
                          ElementsAre("2048", "-", "-", "-", "-", "-", "-", "-", "RESOURCE_EXHAUSTED", "5")));
}

TEST(LoadTable, NothingMeasured) {
  LoadReport report = ExampleReport();
  report.lengths.clear();
  report.interrupted = true;
  EXPECT_THAT(LoadTable(report), HasSubstr("Interrupted before anything was measured."));
}

TEST(LoadTable, ShortNumbers) {
  const std::pair<double, const char*> cases[] = {{0, "0"},         {0.0000123, "1.2e-05"}, {0.0123, "0.012"},
                                                  {0.123, "0.123"}, {1.234, "1.23"},        {12.34, "12.3"},
                                                  {123.4, "123"},   {1234567, "1234567"},   {-1.5, "-1.50"}};
  for (const auto& [number, text] : cases) EXPECT_EQ(ShortNumber(number), text);
}

}  // namespace
}  // namespace attend::client
