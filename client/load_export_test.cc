#include "client/load_export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/example_report.h"

namespace attend::client {
namespace {

TEST(LoadExport, JsonHasEveryFigure) {
  LoadReport report = ExampleReport();
  report.lengths[0].verification =
      Verification{.rows = 32,
                   .total_rows = 1024,
                   .worst = {{.name = "output[0, 1, 2, 3]", .got = 1, .exact = 1, .error = 1e-7, .bound = 1e-5}}};
  const auto json = nlohmann::json::parse(LoadJson(report));
  EXPECT_EQ(json["address"], "127.0.0.1:8001");
  EXPECT_EQ(json["instruction_set"], "avx512");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["interrupted"], false);
  ASSERT_EQ(json["lengths"].size(), 2u);
  const auto& small = json["lengths"][0];
  EXPECT_EQ(small["key_length"], 128);
  EXPECT_EQ(small["ok"], 1000);
  EXPECT_EQ(small["latency_p99_seconds"], 0.00275);
  EXPECT_EQ(small["server_compute_mean_seconds"], 0.0005);
  EXPECT_EQ(small["gflops"], 8.39);
  EXPECT_TRUE(small["errors"].empty());
  EXPECT_EQ(small["verification"]["passed"], true);
  EXPECT_EQ(small["verification"]["worst"][0]["element"], "output[0, 1, 2, 3]");
  EXPECT_EQ(json["lengths"][1]["errors"]["RESOURCE_EXHAUSTED"], 5);
  EXPECT_FALSE(json["lengths"][1].contains("verification"));
}

TEST(LoadExport, CsvHasTheSameFigures) {
  LoadReport report = ExampleMixReport();
  report.mix_unsent = 3;
  const std::vector<std::string> lines = absl::StrSplit(LoadCsv(report), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 5u);
  const std::vector<std::string> header = absl::StrSplit(lines[0], ',');
  const auto json = nlohmann::json::parse(LoadJson(report));
  EXPECT_EQ(json["mix"]["unsent"], 3);
  EXPECT_EQ(json["mix"]["abandoned"], 0);
  for (size_t row = 0; row < 4; ++row) {
    const std::vector<std::string> cells = absl::StrSplit(lines[row + 1], ',');
    ASSERT_EQ(cells.size(), header.size());
    const auto& length = row < 2 ? json["lengths"][row] : json["mix"]["lengths"][row - 2];
    for (size_t column = 0; column + 1 < header.size(); ++column) {
      EXPECT_NEAR(std::atof(cells[column].c_str()), length[header[column]].get<double>(), 1e-6) << header[column];
    }
    EXPECT_EQ(header.back(), "mix_share");
    EXPECT_EQ(std::atof(cells.back().c_str()), row < 2 ? 0 : length["share"].get<double>());
  }
  EXPECT_FALSE(nlohmann::json::parse(LoadJson(ExampleReport())).contains("mix"));
}

TEST(LoadExport, StrangeTextsStayJson) {
  LoadReport report = ExampleReport();
  report.address = "quote \" and \xff byte";
  EXPECT_TRUE(nlohmann::json::accept(LoadJson(report)));
}

}  // namespace
}  // namespace attend::client
