// Where a server listens: lists, IPv6, unix sockets, ports in use, and what a killed one leaves behind.
#include <signal.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/attend_client.h"
#include "tests/testing/plain_connection.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AddressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
    socket_ = folder_->File("attend.sock");
  }

  static std::unique_ptr<ServerProcess> Start(std::vector<std::string> flags) {
    auto server = ServerProcess::Start({.flags = std::move(flags)});
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }

  // One call of Attend. OK if it was answered.
  static absl::Status Attend(const std::string& target) {
    const auto client = client::Client::Create({.target = target});
    if (!client.ok()) return client.status();
    const std::vector<float> elements(4 * 8, 1.0F);
    client::AttendRequest request;
    request.query = client::FloatTensorView({1, 1, 4, 8}, elements);
    request.key = request.query;
    request.value = request.query;
    return (*client)->Attend(request, {.timeout = absl::Seconds(30)}).status();
  }

  // The addresses of the line `ready`.
  static std::vector<std::string> GrpcAddresses(const ServerProcess& server, ChildProcess& process) {
    EXPECT_TRUE(server.WaitForStandardError(" ready ").ok());
    const std::string log = process.StandardError();
    const size_t begin = log.find("grpc=", log.find(" ready ")) + 5;
    return absl::StrSplit(log.substr(begin, log.find(' ', begin) - begin), ',');
  }

  // Expects that a server with these flags ends with 1 and one line that holds `reason`.
  static void ExpectRefused(const std::vector<std::string>& flags, const std::string& reason) {
    std::vector<std::string> command = {ServerProgram()};
    command.insert(command.end(), flags.begin(), flags.end());
    const auto finished = RunProgram({.command = command});
    ASSERT_TRUE(finished.ok()) << finished.status();
    EXPECT_EQ(finished->exit.code.value_or(-1), 1);
    EXPECT_THAT(finished->standard_error, AllOf(StartsWith("attend-server: "), HasSubstr(reason)));
    EXPECT_EQ(std::count(finished->standard_error.begin(), finished->standard_error.end(), '\n'), 1);
  }

  bool SocketExists() const {
    struct stat status = {};
    return lstat(socket_.c_str(), &status) == 0;
  }

  std::unique_ptr<TemporaryFolder> folder_;
  std::string socket_;
};

TEST_F(AddressTest, ServesAListOfAddressesAndNamesTheFirstTcpOne) {
  const auto server = Start({absl::StrCat("--grpc_address=unix:", socket_, ",127.0.0.1:0,[::1]:0")});
  ASSERT_NE(server, nullptr);
  const std::vector<std::string> addresses = GrpcAddresses(*server, server->process());
  ASSERT_EQ(addresses.size(), 3);
  EXPECT_EQ(addresses[0], "unix:" + socket_);
  EXPECT_EQ(addresses[1], server->grpc_address());
  EXPECT_THAT(addresses[2], StartsWith("[::1]:"));
  for (const std::string& address : addresses) EXPECT_TRUE(Attend(address).ok()) << address << Attend(address);
  // Peers are the clients, and not the server's own addresses.
  const auto ended = [](double value) { return value == 3; };
  ASSERT_TRUE(server->WaitForMetric(R"(attend_requests_total{method="Attend",code="OK"})", ended).ok());
  EXPECT_EQ(server->Stop(), 0);
  const std::string log = server->process().StandardError();
  EXPECT_THAT(log, AllOf(ContainsRegex("peer=ipv4:127\\.0\\.0\\.1:[0-9]+ "),
                         ContainsRegex("peer=\"?ipv6:.*::1.*:[0-9]+"), ContainsRegex("peer=\"?unix:")));
  EXPECT_THAT(log, Not(HasSubstr(absl::StrCat("peer=ipv4:", addresses[1]))));
  EXPECT_FALSE(SocketExists()) << "removed at the end";
}

TEST_F(AddressTest, AUnixSocketAloneIsEnough) {
  const auto server = Start({absl::StrCat("--grpc_address=unix:", socket_)});
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->grpc_address(), "unix:" + socket_);
  EXPECT_TRUE(Attend(server->grpc_address()).ok());
  const auto ready = server->Get("/readyz");
  EXPECT_TRUE(ready.ok() && ready->status == 200) << ready.status();
}

TEST_F(AddressTest, AUnixSocketOfAKilledServerIsReplacedAndOneInUseIsNot) {
  const std::string flag = absl::StrCat("--grpc_address=unix:", socket_);
  auto first = Start({flag});
  ASSERT_NE(first, nullptr);
  ExpectRefused({flag, "--http_address=127.0.0.1:0"}, "Address already in use");
  EXPECT_TRUE(Attend("unix:" + socket_).ok()) << "the first one goes on";
  first->process().Signal(SIGKILL);
  ASSERT_TRUE(first->process().Wait(absl::Seconds(30)).ok());
  EXPECT_TRUE(SocketExists());
  const auto second = Start({flag});
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(Attend("unix:" + socket_).ok());
}

TEST_F(AddressTest, APortInUseIsOneLine) {
  const auto server = Start({});
  ASSERT_NE(server, nullptr);
  ExpectRefused(
      {absl::StrCat("--grpc_address=", server->grpc_address()), "--http_address=127.0.0.1:0"},
      absl::StrCat("grpc_address ", server->grpc_address(), " cannot be listened on: Address already in use"));
  ExpectRefused(
      {"--grpc_address=127.0.0.1:0", absl::StrCat("--http_address=", server->http_address())},
      absl::StrCat("http_address ", server->http_address(), " cannot be listened on: Address already in use"));
  ExpectRefused({"--grpc_address=192.0.2.1:0", "--http_address=127.0.0.1:0"}, "192.0.2.1:0 cannot be listened on");
}

TEST_F(AddressTest, AKilledServerIsReplacedOnTheSamePorts) {
  auto first = Start({});
  ASSERT_NE(first, nullptr);
  const std::string grpc = first->grpc_address();
  const std::string http = first->http_address();
  const auto client = client::Client::Create({.target = grpc});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->CheckHealth("").ok());
  // Connections that are open when it dies.
  const auto held = PlainConnection::Connect(grpc);
  const auto probe = PlainConnection::Connect(http);
  ASSERT_TRUE(held.ok() && probe.ok());
  first->process().Signal(SIGKILL);
  ASSERT_TRUE(first->process().Wait(absl::Seconds(30)).ok());
  const auto second = Start({absl::StrCat("--grpc_address=", grpc), absl::StrCat("--http_address=", http)});
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->grpc_address(), grpc);
  EXPECT_TRUE((*client)->CheckHealth("", {.timeout = absl::Seconds(30)}).ok()) << "the same client goes on";
}

}  // namespace
}  // namespace attend::testing
