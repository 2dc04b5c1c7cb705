#include "client/load_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "client/example_report.h"
#include "client/piped_program.h"

namespace attend::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(LoadChart, ScriptNamesWhatIsDrawn) {
  const std::string script = ChartScript(ExampleReport(), "load.svg", "/tmp/x \"quoted\"");
  EXPECT_THAT(script, HasSubstr("set terminal svg"));
  EXPECT_THAT(script, HasSubstr("set output \"/tmp/x \\\"quoted\\\"\"\n"));
  EXPECT_THAT(script, HasSubstr("128 32000 8.39 1.25 2.75\n2048 32000 8.39 100 150\nEOD\n"));
  EXPECT_THAT(script, HasSubstr("set logscale x 2\n"));
  EXPECT_THAT(script, HasSubstr("set xtics (128, 2048)\n"));
  EXPECT_THAT(script, HasSubstr("8 heads, dim 64, f32, causal top_left\\n4 calls in flight"));
  EXPECT_THAT(script, HasSubstr("set xlabel \"sequence length (tokens)\""));
  EXPECT_THAT(ChartScript(ExampleReport(), "load.png", "x"), HasSubstr("set terminal pngcairo"));
}

TEST(LoadChart, LengthsAreSortedAndThoseWithoutAnswersLeftOut) {
  LoadReport report = ExampleReport();
  std::swap(report.lengths[0], report.lengths[1]);
  LengthFigures failed;
  failed.key_length = 4096;
  failed.failed = 3;
  report.lengths.push_back(failed);
  const std::string script = ChartScript(report, "load.svg", "x");
  EXPECT_THAT(script, HasSubstr("set xtics (128, 2048)\n"));
  EXPECT_THAT(script, Not(HasSubstr("\n4096 ")));
}

class DrawnChartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "load_chart_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static bool HasGnuplot() {
    const auto outcome = RunPipedProgram({"gnuplot", "--version"}, "");
    return outcome.ok() && outcome->exit_code == 0;
  }

  static std::string Contents(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  size_t Files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(DrawnChartTest, GnuplotDrawsIt) {
  if (!HasGnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  ASSERT_TRUE(WriteChart(ExampleReport(), folder_ / "load.svg").ok());
  const std::string svg = Contents(folder_ / "load.svg");
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  for (const char* text : {"Throughput", "Latency", "tokens/s", "GFLOP/s", "sequence length (tokens)", "p99"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  const absl::Status png = WriteChart(ExampleReport(), folder_ / "load.png");
  ASSERT_TRUE(png.ok()) << png;
  EXPECT_THAT(Contents(folder_ / "load.png"), StartsWith("\x89PNG"));
  EXPECT_EQ(Files(), 2u);
}

TEST_F(DrawnChartTest, FailuresLeaveNothing) {
  LoadReport report = ExampleReport();
  report.lengths.clear();
  EXPECT_EQ(WriteChart(report, folder_ / "load.svg").code(), absl::StatusCode::kFailedPrecondition);
  const std::string path = std::getenv("PATH");
  ASSERT_EQ(setenv("PATH", folder_.c_str(), 1), 0);
  EXPECT_EQ(WriteChart(ExampleReport(), folder_ / "load.svg").code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
  EXPECT_EQ(Files(), 0u);
}

TEST(PipedProgram, InputErrorsAndExitCodes) {
  auto outcome = RunPipedProgram({"sh", "-c", "read line; echo \"got $line\" >&2; exit 3"}, "hello\n");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->exit_code, 3);
  EXPECT_EQ(outcome->standard_error, "got hello");
  EXPECT_EQ(RunPipedProgram({"sh", "-c", "kill -9 $$"}, "")->exit_code, 137);
  EXPECT_EQ(RunPipedProgram({"true"}, std::string(1 << 20, 'x'))->exit_code, 0) << "input that nobody reads";
  EXPECT_EQ(RunPipedProgram({"no-such-program-anywhere"}, "").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace attend::client
