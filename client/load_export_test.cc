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
  const LoadReport report = ExampleReport();
  const std::vector<std::string> lines = absl::StrSplit(LoadCsv(report), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  const std::vector<std::string> header = absl::StrSplit(lines[0], ',');
  const auto json = nlohmann::json::parse(LoadJson(report));
  for (size_t row = 0; row < 2; ++row) {
    const std::vector<std::string> cells = absl::StrSplit(lines[row + 1], ',');
    ASSERT_EQ(cells.size(), header.size());
    for (size_t column = 0; column < header.size(); ++column) {
      EXPECT_NEAR(std::atof(cells[column].c_str()), json["lengths"][row][header[column]].get<double>(), 1e-6)
          << header[column];
    }
  }
}

TEST(LoadExport, StrangeTextsStayJson) {
  LoadReport report = ExampleReport();
  report.address = "quote \" and \xff byte";
  EXPECT_TRUE(nlohmann::json::accept(LoadJson(report)));
}

}  // namespace
}  // namespace attend::client
