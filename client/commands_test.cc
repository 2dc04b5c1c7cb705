#include "client/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/serialized_details.h"
#include "client/status_payload.h"

namespace attend::client {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    for (const char* name : {"ATTEND_ADDRESS", "ATTEND_CLIENT_TLS_CA", "ATTEND_CLIENT_TLS_CERT",
                             "ATTEND_CLIENT_TLS_KEY", "ATTEND_CLIENT_TLS_SERVER_NAME", "ATTEND_CLIENT_TOKEN_FILE"}) {
      unsetenv(name);
    }
    CLI::App& command = commands_.Add("try", "Tries", [this](const Connection& connection) {
      connection_ = connection;
      return status_;
    });
    commands_.AddLocal("count", "Needs no server", [this] {
      ++local_runs_;
      return absl::OkStatus();
    });
    AddDurationOption(command, "--pause", pause_, "How long");
  }

  // Runs "attend <arguments>".
  int Run(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "attend");
    CaptureStdout();
    CaptureStderr();
    const int code = commands_.Run(static_cast<int>(arguments.size()), arguments.data());
    errors_ = GetCapturedStderr();
    output_ = GetCapturedStdout();
    return code;
  }

  Commands commands_;
  absl::Status status_;
  absl::Duration pause_ = absl::Seconds(1);
  int local_runs_ = 0;
  std::optional<Connection> connection_;  // what the command got
  std::string output_;
  std::string errors_;
};

TEST_F(CommandsTest, RunsTheCommandWithDefaults) {
  EXPECT_EQ(Run({"try"}), 0);
  ASSERT_TRUE(connection_.has_value());
  EXPECT_EQ(connection_->address, "127.0.0.1:8001");
  EXPECT_EQ(connection_->Call().timeout, kDefaultTimeout);
  EXPECT_EQ(connection_->Call(kProbeTimeout).timeout, kProbeTimeout);
  EXPECT_TRUE(connection_->Call().fail_fast);
  EXPECT_EQ(errors_, "");
}

TEST_F(CommandsTest, TakesSharedOptionsBeforeAndAfterTheCommand) {
  EXPECT_EQ(Run({"--address", "a:1", "try", "--timeout", "1m30s", "--pause=250ms"}), 0);
  EXPECT_EQ(connection_->address, "a:1");
  EXPECT_EQ(connection_->Call(kProbeTimeout).timeout, absl::Seconds(90));
  EXPECT_EQ(pause_, absl::Milliseconds(250));
}

TEST_F(CommandsTest, TakesTlsAndTokensFromOptionsOrTheEnvironment) {
  EXPECT_EQ(Run({"try", "--tls_ca", "a", "--tls_cert=b", "--tls_key=c", "--tls_server_name=d", "--token_file", "e"}),
            0);
  EXPECT_EQ(connection_->security.tls_ca, "a");
  EXPECT_EQ(connection_->security.tls_cert, "b");
  EXPECT_EQ(connection_->security.tls_key, "c");
  EXPECT_EQ(connection_->security.tls_server_name, "d");
  EXPECT_EQ(connection_->security.token_file, "e");
}

TEST_F(CommandsTest, TheEnvironmentHoldsWhereAnOptionIsNotGiven) {
  setenv("ATTEND_CLIENT_TLS_CA", "a", 1);
  setenv("ATTEND_CLIENT_TLS_CERT", "b", 1);
  setenv("ATTEND_CLIENT_TLS_KEY", "c", 1);
  setenv("ATTEND_CLIENT_TLS_SERVER_NAME", "d", 1);
  setenv("ATTEND_CLIENT_TOKEN_FILE", "e", 1);
  setenv("ATTEND_TOKEN_FILE", "the server's", 1);
  EXPECT_EQ(Run({"--tls_ca=other", "try"}), 0);
  EXPECT_EQ(connection_->security.tls_ca, "other");
  EXPECT_EQ(connection_->security.tls_cert, "b");
  EXPECT_EQ(connection_->security.tls_key, "c");
  EXPECT_EQ(connection_->security.tls_server_name, "d");
  EXPECT_EQ(connection_->security.token_file, "e");
  EXPECT_EQ(Run({"count"}), 0) << "needs no server, and no variable of one";
}

TEST_F(CommandsTest, ACertificateWithoutItsKeyIsABadCommandLine) {
  commands_.Add("connect", "Connects", [](const Connection& connection) { return connection.Connect().status(); });
  EXPECT_EQ(Run({"connect", "--tls_cert=a"}), 2);
  EXPECT_THAT(errors_, HasSubstr("--tls_cert and --tls_key must be given together"));
}

TEST_F(CommandsTest, AFileThatCannotBeReadIsAFailure) {
  commands_.Add("connect", "Connects", [](const Connection& connection) { return connection.Connect().status(); });
  EXPECT_EQ(Run({"connect", "--token_file=/nowhere"}), 1);
  EXPECT_EQ(errors_, "attend: token_file /nowhere cannot be read: No such file or directory\n");
}

TEST_F(CommandsTest, TakesTheAddressFromTheEnvironmentUnlessGiven) {
  setenv("ATTEND_ADDRESS", "b:2", 1);
  EXPECT_EQ(Run({"try"}), 0);
  EXPECT_EQ(connection_->address, "b:2");
  EXPECT_EQ(Run({"try", "--address", "c:3"}), 0);
  EXPECT_EQ(connection_->address, "c:3");
  EXPECT_EQ(Run({"count"}), 0) << "for commands that ask a server, not an option given to this one";
  unsetenv("ATTEND_ADDRESS");
}

TEST_F(CommandsTest, ALocalCommandHasNoConnection) {
  EXPECT_EQ(Run({"count"}), 0);
  EXPECT_EQ(local_runs_, 1);
  EXPECT_EQ(Run({"count", "--address", "a:1"}), 2);
  EXPECT_EQ(Run({"count", "--timeout=1s"}), 2);
  EXPECT_EQ(Run({"--address", "a:1", "count"}), 2);
  EXPECT_EQ(errors_, "attend: --address does not go with count, which needs no server\n");
  EXPECT_EQ(Run({"--timeout=1s", "count"}), 2);
  EXPECT_EQ(local_runs_, 1);
  EXPECT_EQ(Run({"count", "--help"}), 0);
  EXPECT_THAT(output_, testing::Not(HasSubstr("--address")));
}

TEST_F(CommandsTest, ABadCommandLineIsOneLineAndExitCode2) {
  const std::vector<std::vector<const char*>> lines = {{},
                                                       {"nothing"},
                                                       {"try", "--unknown"},
                                                       {"try", "--timeout"},
                                                       {"try", "--timeout", "5"},
                                                       {"try", "--timeout=-5s"},
                                                       {"try", "--timeout=0"},
                                                       {"try", "--timeout=inf"},
                                                       {"try", "--pause=soon"},
                                                       {"try", "left over"},
                                                       {"--unknown"}};
  for (const auto& line : lines) {
    EXPECT_EQ(Run(line), 2) << errors_;
    EXPECT_THAT(errors_, testing::MatchesRegex("attend: [^\n]+\n"));
    EXPECT_EQ(output_, "");
    EXPECT_FALSE(connection_.has_value());
  }
}

TEST_F(CommandsTest, NamesACommandThatThereIsNot) {
  EXPECT_EQ(Run({"nope", "--pause=1s"}), 2);
  EXPECT_EQ(errors_, "attend: there is no command 'nope' (attend --help tells more)\n");
  EXPECT_EQ(Run({"--unknown"}), 2);
  EXPECT_EQ(errors_, "attend: there is no option '--unknown' (attend --help tells more)\n");
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(errors_, "attend: A subcommand is required (attend --help tells more)\n");
}

TEST_F(CommandsTest, AFailureIsOneLineAndExitCode1) {
  status_ = absl::UnavailableError("no server at\nb:2");
  EXPECT_EQ(Run({"try"}), 1);
  EXPECT_EQ(errors_, "attend: no server at b:2\n");
}

TEST_F(CommandsTest, AUsageErrorIsOneLineAndExitCode2) {
  status_ = UsageError("--a and --b exclude each other");
  EXPECT_EQ(Run({"try"}), 2);
  EXPECT_EQ(errors_, "attend: --a and --b exclude each other\n");
}

TEST_F(CommandsTest, HelpAndVersionGoToStandardOutput) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(output_, HasSubstr("try "));
  EXPECT_THAT(output_, HasSubstr("ATTEND_ADDRESS"));
  EXPECT_EQ(Run({"try", "--help"}), 0);
  EXPECT_THAT(output_, HasSubstr("--pause DURATION=1s"));
  EXPECT_THAT(output_, HasSubstr("--timeout DURATION"));
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_THAT(output_, testing::MatchesRegex("attend [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_FALSE(connection_.has_value());
}

TEST_F(CommandsTest, HelpFitsInto80Columns) {
  for (const std::vector<const char*>& line : {std::vector<const char*>{"--help"}, {"try", "--help"}}) {
    EXPECT_EQ(Run(line), 0);
    EXPECT_THAT(output_, testing::Not(testing::ContainsRegex("[^\n]{81}")));
  }
}

TEST(FailureLine, GivesCodeAndRequestWhereTheServerAnswered) {
  absl::Status status = absl::InvalidArgumentError("head_dim is 0");
  EXPECT_EQ(FailureLine(status), "attend: head_dim is 0");
  AttachDetails({.details = SerializedViolation("query.shape[3]", "R", "0", "1"), .request_id = "r7"}, status);
  EXPECT_EQ(FailureLine(status), "attend: head_dim is 0 (INVALID_ARGUMENT, request r7)");
}

}  // namespace
}  // namespace attend::client
