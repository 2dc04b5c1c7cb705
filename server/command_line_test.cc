#include "server/command_line.h"

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr MachineLimits kMachine = {.cpus = 6, .memory_bytes = 8 * kGiB};

class CommandLineTest : public ::testing::Test {
 protected:
  absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& arguments) {
    const Environment environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
    return ParseCommandLine(arguments, environment, kMachine);
  }

  Settings ParseOrFail(const std::vector<std::string>& arguments) {
    absl::StatusOr<CommandLine> parsed = Parse(arguments);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? parsed->settings : Settings{};
  }

  // The message, which is one line.
  std::string Refusal(const std::vector<std::string>& arguments) {
    const absl::StatusOr<CommandLine> parsed = Parse(arguments);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(parsed.status().message());
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    return message;
  }

  std::string WriteFlagfile(const std::string& text) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", UnitTestName(), ".conf");
    std::ofstream(path) << text;
    return path;
  }

  std::map<std::string, std::string> variables_;

 private:
  static std::string UnitTestName() { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }
};

TEST_F(CommandLineTest, HasTheDefaultsOfTheDocumentation) {
  const Settings settings = ParseOrFail({});
  EXPECT_THAT(settings.grpc_addresses, ElementsAre("127.0.0.1:8001"));
  EXPECT_EQ(settings.http_address, "127.0.0.1:8002");
  EXPECT_EQ(settings.compute_threads, kMachine.cpus);
  EXPECT_EQ(settings.memory_budget, 4 * kGiB);
  EXPECT_EQ(settings.receive_budget, kGiB);
  EXPECT_EQ(settings.receive_timeout, std::nullopt);
  EXPECT_EQ(settings.max_message_bytes, kGiB / 4);
  EXPECT_EQ(settings.max_queued_requests, 512);
  EXPECT_EQ(settings.max_connections, 1024);
  EXPECT_EQ(settings.max_streams_per_connection, 1024);
  EXPECT_EQ(settings.max_metadata_bytes, 16384);
  EXPECT_EQ(settings.handshake_timeout, absl::Seconds(10));
  EXPECT_EQ(settings.min_ping_interval, absl::Seconds(5));
  EXPECT_EQ(settings.max_connection_idle, absl::Hours(1));
  EXPECT_EQ(settings.max_connection_age, absl::InfiniteDuration());
  EXPECT_EQ(settings.drain_delay, absl::ZeroDuration());
  EXPECT_EQ(settings.drain_timeout, absl::Seconds(8));
  EXPECT_EQ(settings.stuck_after, absl::Seconds(30));
  EXPECT_EQ(settings.max_instruction_set, std::nullopt);
  EXPECT_EQ(settings.log_format, LogFormat::kText);
  EXPECT_EQ(settings.log_level, LogLevel::kInfo);
  EXPECT_EQ(settings.log_requests_per_second, 100);
  EXPECT_EQ(settings.ready_file, "");
  EXPECT_FALSE(settings.allow_compression);
  EXPECT_TRUE(settings.reflection);
}

TEST_F(CommandLineTest, AFlagGoesBeforeTheEnvironmentAndThatBeforeTheFile) {
  const std::string file = WriteFlagfile(
      "# a comment\n"
      "\n"
      "  max_queued_requests = 1 \n"
      "max_streams_per_connection=1\n"
      "log_requests_per_second=1\n"
      "grpc_address=[::1]:7001,unix:/tmp/a=b\n");
  variables_ = {{"ATTEND_MAX_QUEUED_REQUESTS", "2"}, {"ATTEND_MAX_STREAMS_PER_CONNECTION", "2"}};
  const Settings settings = ParseOrFail({absl::StrCat("--flagfile=", file), "--max_queued_requests=3"});
  EXPECT_EQ(settings.max_queued_requests, 3);
  EXPECT_EQ(settings.max_streams_per_connection, 2);
  EXPECT_EQ(settings.log_requests_per_second, 1);
  EXPECT_THAT(settings.grpc_addresses, ElementsAre("[::1]:7001", "unix:/tmp/a=b"));
}

TEST_F(CommandLineTest, TheEnvironmentNamesTheFlagfile) {
  variables_ = {{"ATTEND_FLAGFILE", WriteFlagfile("max_queued_requests=9")}};
  EXPECT_EQ(ParseOrFail({}).max_queued_requests, 9);
}

TEST_F(CommandLineTest, OfSeveralEqualSourcesTheLastHolds) {
  EXPECT_EQ(ParseOrFail({"--max_queued_requests=3", "--max_queued_requests=4"}).max_queued_requests, 4);
  const std::string file = WriteFlagfile("max_queued_requests=5\nmax_queued_requests=6\n");
  EXPECT_EQ(ParseOrFail({"--flagfile", file}).max_queued_requests, 6);
}

TEST_F(CommandLineTest, SwitchesMayStandAlone) {
  EXPECT_TRUE(ParseOrFail({"--allow_compression"}).allow_compression);
  EXPECT_TRUE(ParseOrFail({"--allow_compression", "--reflection=false"}).allow_compression);
  EXPECT_FALSE(ParseOrFail({"--allow_compression=false"}).allow_compression);
}

TEST_F(CommandLineTest, SharesAreOfWhatTheSettingSays) {
  const Settings settings = ParseOrFail({"--memory_budget=25%", "--receive_budget=50%", "--max_message_bytes=10%"});
  EXPECT_EQ(settings.memory_budget, 2 * kGiB);
  EXPECT_EQ(settings.receive_budget, kGiB);
  EXPECT_EQ(settings.max_message_bytes, 2 * kGiB / 10);
}

TEST_F(CommandLineTest, TheLongestMessageFitsTheBudgetsByItself) {
  EXPECT_EQ(ParseOrFail({"--memory_budget=64MiB"}).max_message_bytes, 16 << 20);
  EXPECT_EQ(ParseOrFail({"--receive_budget=1MiB"}).max_message_bytes, 1 << 20);
}

TEST_F(CommandLineTest, ReadsEveryKindOfValue) {
  const Settings settings =
      ParseOrFail({"--compute_threads=3", "--receive_timeout=5s", "--max_connection_age=off",
                   "--max_connection_idle=off", "--max_instruction_set=avx2", "--log_format=json",
                   "--log_level=warning", "--ready_file=/run/ready", "--max_metadata_bytes=8KiB"});
  EXPECT_EQ(settings.compute_threads, 3);
  EXPECT_EQ(settings.receive_timeout, absl::Seconds(5));
  EXPECT_EQ(settings.max_connection_idle, absl::InfiniteDuration());
  EXPECT_EQ(settings.max_instruction_set, core::InstructionSet::kAvx2);
  EXPECT_EQ(settings.log_format, LogFormat::kJson);
  EXPECT_EQ(settings.log_level, LogLevel::kWarning);
  EXPECT_EQ(settings.ready_file, "/run/ready");
  EXPECT_EQ(settings.max_metadata_bytes, 8192);
}

TEST_F(CommandLineTest, RefusesAnUnknownFlagByName) {
  EXPECT_THAT(Refusal({"--max_conections=3"}), HasSubstr("--max_conections"));
  EXPECT_THAT(Refusal({"--max_connection=3"}), HasSubstr("--max_connection"));
  EXPECT_THAT(Refusal({"serve"}), HasSubstr("serve"));
}

TEST_F(CommandLineTest, RefusesABadValueOfEachSettingWithItsPlace) {
  const std::pair<std::string, std::string> bad[] = {
      {"grpc_address", "8001"},
      {"grpc_address", "host:99999"},
      {"grpc_address", "127.0.0.1:1,"},
      {"grpc_address", "::1:80"},
      {"http_address", "unix:/a"},
      {"compute_threads", "-1"},
      {"compute_threads", "two"},
      {"memory_budget", "lots"},
      {"receive_budget", "200%"},
      {"receive_timeout", "30"},
      {"receive_timeout", "off"},
      {"max_message_bytes", "-5"},
      {"max_queued_requests", "0"},
      {"max_connections", "0"},
      {"max_streams_per_connection", "0"},
      {"max_metadata_bytes", "1"},
      {"handshake_timeout", "off"},
      {"min_ping_interval", "x"},
      {"max_connection_idle", "1"},
      {"max_connection_age", "-1s"},
      {"drain_delay", "off"},
      {"drain_timeout", "8"},
      {"stuck_after", "never"},
      {"max_instruction_set", "sse"},
      {"log_format", "xml"},
      {"log_level", "loud"},
      {"log_requests_per_second", "-1"},
      {"allow_compression", "perhaps"},
      {"reflection", "2"},
  };
  for (const auto& [name, value] : bad) {
    const std::string flag = absl::StrCat("--", name);
    EXPECT_THAT(Refusal({absl::StrCat(flag, "=", value)}),
                AllOf(HasSubstr(flag), HasSubstr(absl::StrCat("'", value, "'")), HasSubstr("must be")));
  }
}

TEST_F(CommandLineTest, NamesVariableOrLineOfABadValue) {
  variables_ = {{"ATTEND_LOG_FORMAT", "xml"}};
  EXPECT_THAT(Refusal({}), HasSubstr("ATTEND_LOG_FORMAT is 'xml', must be one of text, json"));
  variables_ = {};
  const std::string file = WriteFlagfile("# first\nlog_format=xml\n");
  EXPECT_THAT(Refusal({"--flagfile", file}), HasSubstr(absl::StrCat(file, ":2 log_format is 'xml'")));
}

TEST_F(CommandLineTest, RefusesAFlagfileWithUnknownNamesOrNoSettings) {
  EXPECT_THAT(Refusal({"--flagfile", WriteFlagfile("max_conections=3")}), HasSubstr("max_conections"));
  EXPECT_THAT(Refusal({"--flagfile", WriteFlagfile("reflection")}), HasSubstr(":1: must be name=value"));
  // A file of random bytes is no reason to send them to a terminal.
  EXPECT_THAT(Refusal({"--flagfile", WriteFlagfile("\x1b[2J\xff=3")}), HasSubstr("unknown setting \\033[2J\\377"));
  EXPECT_THAT(Refusal({"--flagfile", WriteFlagfile("log_format=\x1b\x07")}), HasSubstr("is '\\033\\007'"));
  EXPECT_THAT(Refusal({"--flagfile", "/nonexistent/flags"}), HasSubstr("/nonexistent/flags"));
}

TEST_F(CommandLineTest, RefusesSettingsThatContradictEachOther) {
  EXPECT_THAT(Refusal({"--receive_budget=1MiB", "--max_message_bytes=2MiB"}),
              AllOf(HasSubstr("max_message_bytes is 2MiB"), HasSubstr("receive_budget, 1MiB")));
  EXPECT_THAT(Refusal({"--max_message_bytes=3GiB", "--receive_budget=4GiB"}), HasSubstr("max_message_bytes"));
  EXPECT_THAT(Refusal({"--memory_budget=1000"}), HasSubstr("memory_budget"));
}

TEST_F(CommandLineTest, HelpNamesEverySettingWithItsDefault) {
  const std::string help = Parse({"--help"})->text;
  for (const Setting& setting : SettingsTable()) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("--", setting.name, " ")));
    EXPECT_THAT(help, HasSubstr(std::string(setting.effect)));
    if (setting.default_text.empty()) continue;
    EXPECT_THAT(help, HasSubstr(absl::StrCat("=", setting.default_text)));
  }
  EXPECT_THAT(help, AllOf(HasSubstr("--flagfile"), HasSubstr("ATTEND_"), HasSubstr("--version")));
}

TEST_F(CommandLineTest, PrintsItsVersion) { EXPECT_THAT(Parse({"--version"})->text, HasSubstr("attend-server 0.")); }

TEST_F(CommandLineTest, DescribesEffectiveSettings) {
  const std::string text = DescribeSettings(ParseOrFail({"--memory_budget=25%", "--drain_delay=3s"}));
  for (const Setting& setting : SettingsTable()) EXPECT_THAT(text, HasSubstr(absl::StrCat(setting.name, "=")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("memory_budget=2GiB"), HasSubstr("drain_delay=3s"), HasSubstr("compute_threads=6")));
}

}  // namespace
}  // namespace attend::server
