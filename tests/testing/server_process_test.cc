#include "tests/testing/server_process.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attend::testing {
namespace {

using ::testing::HasSubstr;

TEST(ChildProcessTest, CapturesOutputAndExitCode) {
  const auto program = RunProgram({.command = {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->exit.code, 3);
  EXPECT_EQ(program->exit.signal, std::nullopt);
  EXPECT_EQ(program->standard_output, "out\n");
  EXPECT_EQ(program->standard_error, "err\n");
}

TEST(ChildProcessTest, TellsTheSignalThatEndedIt) {
  const auto program = RunProgram({.command = {"/bin/sh", "-c", "kill -TERM $$"}});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->exit.signal, SIGTERM);
}

TEST(ChildProcessTest, WhatIsNotThereIsAnError) {
  EXPECT_EQ(RunProgram({.command = {"/nonexistent/program"}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChildProcessTest, WhatIsNoProgramIsAnError) {
  auto folder = TemporaryFolder::Create();
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string path = (*folder)->File("text");
  std::ofstream(path) << "no program";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const absl::Status status = RunProgram({.command = {path}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Exec format error"));
}

TEST(ChildProcessTest, AnEndlessProgramIsKilled) {
  auto child = ChildProcess::Start({.command = {"/bin/sleep", "1000"}});
  ASSERT_TRUE(child.ok()) << child.status();
  const pid_t pid = (*child)->pid();
  EXPECT_TRUE((*child)->running());
  const int64_t resident = (*child)->ResidentBytes();
  EXPECT_GT(resident, 0);
  EXPECT_GE((*child)->PeakResidentBytes(), resident);
  EXPECT_EQ((*child)->Threads(), 1);
  EXPECT_EQ((*child)->Wait(absl::ZeroDuration()).status().code(), absl::StatusCode::kDeadlineExceeded);
  child->reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ChildProcessTest, SettingsOfTheCallerDoNotLeakIn) {
  setenv("ATTEND_MEMORY_BUDGET", "1", 1);
  const auto program = RunProgram({.command = {"/usr/bin/env"}, .environment = {"ATTEND_LOG_LEVEL=debug"}});
  unsetenv("ATTEND_MEMORY_BUDGET");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->standard_output, HasSubstr("ATTEND_LOG_LEVEL=debug"));
  EXPECT_THAT(program->standard_output, ::testing::Not(HasSubstr("ATTEND_MEMORY_BUDGET")));
}

TEST(TemporaryFolderTest, IsRemovedWithItsContents) {
  auto folder = TemporaryFolder::Create();
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string path = (*folder)->path();
  std::filesystem::create_directory((*folder)->File("inner"));
  EXPECT_TRUE(std::filesystem::exists(path));
  folder->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

constexpr absl::string_view kMetrics =
    "# HELP attend_requests_total Calls by method and code\n"
    "# TYPE attend_requests_total counter\n"
    "attend_requests_total{method=\"Attend\",code=\"OK\"} 12\n"
    "attend_requests_total{method=\"a, b\",code=\"OK\"} 3\n"
    "attend_in_flight_requests 2\n"
    "attend_in_flight_requests_limit 7\n"
    "attend_oldest_job_age_seconds 0.25 1700000000000\n";

TEST(FindMetricTest, FindsSamplesByNameAndLabels) {
  EXPECT_EQ(FindMetric(kMetrics, "attend_in_flight_requests").value_or(-1), 2);
  EXPECT_EQ(FindMetric(kMetrics, "attend_oldest_job_age_seconds").value_or(-1), 0.25);
  EXPECT_EQ(FindMetric(kMetrics, R"(attend_requests_total{code="OK",method="Attend"})").value_or(-1), 12);
  EXPECT_EQ(FindMetric(kMetrics, R"(attend_requests_total{method="a, b",code="OK"})").value_or(-1), 3);
}

TEST(FindMetricTest, WhatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(FindMetric(kMetrics, "attend_requests").status()));
  EXPECT_TRUE(absl::IsNotFound(FindMetric(kMetrics, "attend_requests_total").status()));
  EXPECT_TRUE(absl::IsNotFound(FindMetric(kMetrics, R"(attend_requests_total{code="OK"})").status()));
  EXPECT_TRUE(absl::IsNotFound(FindMetric("", "a").status()));
}

}  // namespace
}  // namespace attend::testing
