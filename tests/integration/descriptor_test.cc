// A server that runs out of descriptors: probes are answered, nothing ends, and whoever comes afterwards is served.
#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/attend_client.h"
#include "tests/testing/plain_connection.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::HasSubstr;

#ifdef ATTEND_SANITIZED
constexpr absl::Duration kSoon = absl::Seconds(20);
#else
constexpr absl::Duration kSoon = absl::Seconds(1);
#endif
constexpr absl::Duration kProbeTimeout = absl::Seconds(2);
constexpr absl::Duration kGenerous = absl::Seconds(60);
constexpr char kHalfRequest[] = "GET /livez HTTP/1.1\r\nHost: x\r\n";
constexpr char kRefusedForDescriptors[] = "attend_connections_refused_total{reason=\"descriptors\"}";

class DescriptorTest : public ::testing::Test {
 protected:
  // This process holds more connections than the server may have.
  static void SetUpTestSuite() {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_GE(limit.rlim_cur, 2048) << "this test needs 2,048 descriptors (ulimit -n)";
  }

  void StartServer(ServerProcess::Options options) {
    auto server = ServerProcess::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_EQ(server_->Stop(), 0) << server_->process().StandardError();
  }

  // Connections that say `greeting` and then nothing.
  static std::vector<std::unique_ptr<PlainConnection>> Hold(const std::string& address, int count,
                                                            absl::string_view greeting) {
    std::vector<std::unique_ptr<PlainConnection>> held;
    for (int i = 0; i < count; ++i) {
      auto connection = PlainConnection::Connect(address);
      EXPECT_TRUE(connection.ok()) << i << ": " << connection.status();
      if (!connection.ok()) break;
      (*connection)->Send(greeting);  // or it has been refused
      held.push_back(*std::move(connection));
    }
    return held;
  }

  void ExpectProbesAnswered() {
    for (const std::string path : {"/livez", "/readyz", "/metrics"}) {
      const auto answer = server_->Get(path, kProbeTimeout);
      EXPECT_TRUE(answer.ok() && answer->status == 200) << path << ": " << answer.status();
    }
  }

  void ExpectANewClientIsServed(absl::Duration timeout) {
    const auto client = client::Client::Create({.target = server_->grpc_address()});
    ASSERT_TRUE(client.ok()) << client.status();
    const auto health = (*client)->CheckHealth("", {.timeout = timeout});
    EXPECT_TRUE(health.ok() && *health == client::Health::kServing) << health.status();
  }

  std::unique_ptr<ServerProcess> server_;
};

TEST_F(DescriptorTest, AThousandConnectionsToAServerThatMayHave128Files) {
  StartServer({.max_open_files = 128});
  EXPECT_TRUE(server_->WaitForStandardError("max_connections is more than descriptors allow").ok());
  for (const absl::string_view greeting : {Http2Greeting(), absl::string_view()}) {
    SCOPED_TRACE(greeting.empty() ? "silent connections" : "HTTP/2 connections");
    const double refused_before = server_->Metric(kRefusedForDescriptors).value_or(-1);
    auto held = Hold(server_->grpc_address(), 1000, greeting);
    ASSERT_EQ(held.size(), 1000);
    EXPECT_TRUE(
        server_
            ->WaitForMetric(kRefusedForDescriptors, [&](double value) { return value >= refused_before + 1000 - 128; })
            .ok());
    EXPECT_LT(server_->Metric("attend_connections").value_or(-1), 128);
    ExpectProbesAnswered();
    held.clear();
    ExpectANewClientIsServed(kSoon);
  }
  EXPECT_TRUE(server_->WaitForStandardError("connections refused").ok());
}

TEST_F(DescriptorTest, AThousandHttpConnectionsToAServerThatMayHave128Files) {
  StartServer({.max_open_files = 128});
  const auto held = Hold(server_->http_address(), 1000, kHalfRequest);
  ASSERT_EQ(held.size(), 1000);
  ExpectProbesAnswered();
  ExpectANewClientIsServed(kSoon);
}

// Some never go on, some send a byte now and then, and come back when the server has had enough.
TEST_F(DescriptorTest, ProbesBesideSlowRequests) {
  StartServer({});
  const auto held = Hold(server_->http_address(), 100, kHalfRequest);
  ASSERT_EQ(held.size(), 100);
  std::jthread dribble([this](const std::stop_token& stop) {
    auto slow = Hold(server_->http_address(), 150, kHalfRequest);
    for (size_t i = 0; !stop.stop_requested(); i = (i + 1) % slow.size()) {
      const bool closed = !slow[i]->Send("x") || slow[i]->ReadUntilClosed(absl::Milliseconds(1));
      if (closed) slow[i] = std::move(Hold(server_->http_address(), 1, kHalfRequest).at(0));
    }
  });
  for (int i = 0; i < 50; ++i) ExpectProbesAnswered();
}

// Here accepting itself fails: the limit is lowered while the server runs, below what it has open.
TEST_F(DescriptorTest, WithoutAnyDescriptorAcceptingPausesAndReadinessSaysSo) {
  StartServer({});
  auto probes = Hold(server_->http_address(), 2, "");
  ASSERT_TRUE(probes[0]->Send("GET /livez HTTP/1.1\r\n"));
  ASSERT_TRUE(probes[1]->Send("GET /readyz HTTP/1.1\r\n"));
  ExpectProbesAnswered();  // and so the two above are accepted
  rlimit before{};
  rlimit none{};
  const pid_t pid = server_->process().pid();
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &before), 0);
  none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &none, nullptr), 0);

  auto waiting = PlainConnection::Connect(server_->grpc_address());
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  ASSERT_TRUE(probes[0]->Send("\r\n"));
  EXPECT_TRUE(probes[0]->ReadUntilClosed(kGenerous));
  EXPECT_THAT(probes[0]->received(), HasSubstr("alive"));
  ASSERT_TRUE(probes[1]->Send("\r\n"));
  EXPECT_TRUE(probes[1]->ReadUntilClosed(kGenerous));
  EXPECT_THAT(probes[1]->received(), HasSubstr("503"));
  EXPECT_TRUE(server_->WaitForStandardError("accept_failures").ok()) << server_->process().StandardError();

  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &before, nullptr), 0);
  // It has said nothing so far: the server speaks first, once it has accepted.
  EXPECT_TRUE((*waiting)->Send(Http2Greeting()));
  EXPECT_TRUE((*waiting)->ReadUntil(absl::string_view("\x4", 1), kGenerous)) << "a SETTINGS frame";
  ExpectProbesAnswered();
  ExpectANewClientIsServed(kGenerous);
}

}  // namespace
}  // namespace attend::testing
