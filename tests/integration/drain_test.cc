// How a server ends: watchers hear it first, what is in flight finishes, clients lose nothing.
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/attend_client.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/server_calls.h"
#include "tests/testing/http2_sender.h"
#include "tests/testing/plain_connection.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::Not;

#ifdef ATTEND_SANITIZED
constexpr absl::Duration kSoon = absl::Seconds(20);
#else
constexpr absl::Duration kSoon = absl::Seconds(1);
#endif
constexpr absl::Duration kGenerous = absl::Seconds(60);
constexpr char kAnswered[] = R"(attend_requests_total{method="Attend",code="OK"})";

// The exit code, once it has ended by itself.
int AwaitExit(ServerProcess& server, absl::Duration timeout) {
  const auto exit = server.process().Wait(timeout);
  EXPECT_TRUE(exit.ok()) << exit.status();
  return exit.ok() ? exit->code.value_or(-1) : -1;
}

// Many calls in flight over many connections: each that ends is followed by another.
class Storm {
 public:
  static constexpr int kClients = 32;
  static constexpr int kCallsPerClient = 64;

  Storm(const std::string& target, client::CallOptions call) : call_(call) {
    for (int i = 0; i < kClients; ++i) {
      auto client = client::Client::Create({.target = target});
      EXPECT_TRUE(client.ok()) << client.status();
      clients_.push_back(*std::move(client));
    }
    in_flight_ = kClients * kCallsPerClient;
    for (const auto& client : clients_) {
      for (int i = 0; i < kCallsPerClient; ++i) Send(*client);
    }
  }

  // Starts no more calls and waits for those in flight. How many ended with each code.
  std::map<absl::StatusCode, int64_t> Stop() {
    stopped_ = true;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return in_flight_ == 0; });
    return ends_;
  }

 private:
  void Send(client::Client& client) {
    client::AttendRequest request;
    request.query = client::FloatTensorView({1, 1, 16, 32}, elements_);
    request.key = request.query;
    request.value = request.query;
    client.AttendAsync(request, call_, [this, &client](const absl::StatusOr<client::AttendResult>& result) {
      const bool more = !stopped_;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        ++ends_[result.status().code()];
        if (!more && --in_flight_ == 0) changed_.notify_all();
      }
      if (more) Send(client);
    });
  }

  const client::CallOptions call_;
  const std::vector<float> elements_ = std::vector<float>(16 * 32, 0.5F);
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<absl::StatusCode, int64_t> ends_;
  int in_flight_ = 0;
  std::vector<std::unique_ptr<client::Client>> clients_;  // last: their callbacks end before the rest goes
};

TEST(DrainTest, AnIdleServerEndsAtOnceThoughAWatchIsOpen) {
  const auto server = StartServer({"--drain_timeout=60s"});
  ASSERT_NE(server, nullptr);
  const auto channel = grpc::CreateChannel(server->grpc_address(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  HealthCheckResponse state;
  const auto watch = Health::NewStub(channel)->Watch(&context, HealthCheckRequest());
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::SERVING);
  server->process().Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(AwaitExit(*server, kSoon), 0);
  EXPECT_FALSE(watch->Read(&state));
  EXPECT_FALSE(watch->Finish().ok());
}

TEST(DrainTest, ConnectionsWithoutCallsDoNotHoldIt) {
  const auto server = StartServer({"--drain_timeout=60s"});
  ASSERT_NE(server, nullptr);
  std::vector<std::unique_ptr<PlainConnection>> held;
  for (int i = 0; i < 200; ++i) {
    for (const std::string& address : {server->grpc_address(), server->http_address()}) {
      auto connection = PlainConnection::Connect(address);
      ASSERT_TRUE(connection.ok()) << connection.status();
      held.push_back(*std::move(connection));
      if (i % 2 == 0 && address == server->grpc_address()) held.back()->Send(Http2Greeting());
    }
  }
  server->process().Signal(SIGTERM);
  EXPECT_EQ(AwaitExit(*server, kSoon), 0);
}

TEST(DrainTest, ASecondSignalEndsItAtOnceWhateverItWaitsFor) {
  const std::vector<std::string> waits[] = {{"--drain_delay=1h"}, {"--drain_timeout=1h"}};
  for (const std::vector<std::string>& flags : waits) {
    SCOPED_TRACE(flags[0]);
    const auto server = StartServer(flags);
    ASSERT_NE(server, nullptr);
    const auto call = Http2Sender::Call(server->grpc_address(), {});
    ASSERT_TRUE(call.ok()) << call.status();
    ASSERT_TRUE(server->WaitForMetric("attend_in_flight_requests", [](double value) { return value == 1; }).ok());
    server->process().Signal(SIGTERM);
    ASSERT_TRUE(server->WaitForStandardError("draining").ok());
    EXPECT_TRUE(server->process().running());
    server->process().Signal(SIGINT);
    EXPECT_EQ(AwaitExit(*server, kGenerous), 0);
    EXPECT_THAT(server->process().StandardError(), HasSubstr("second signal"));
    EXPECT_FALSE(ReadFile(server->ready_file()).ok());
  }
}

TEST(DrainTest, DrainTimeoutIsTheEnd) {
  const auto server = StartServer({"--drain_timeout=50ms"});
  ASSERT_NE(server, nullptr);
  const auto call = Http2Sender::Call(server->grpc_address(), {});
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_TRUE(server->WaitForMetric("attend_in_flight_requests", [](double value) { return value == 1; }).ok());
  server->process().Signal(SIGTERM);
  EXPECT_EQ(AwaitExit(*server, kGenerous), 0);
  EXPECT_THAT(server->process().StandardError(), HasSubstr("drain_timeout has passed"));
}

// While it drains, newcomers are told so over new connections too.
TEST(DrainTest, NewConnectionsAreServedDuringDrainDelay) {
  const auto server = StartServer({"--drain_delay=1h"});
  ASSERT_NE(server, nullptr);
  server->process().Signal(SIGTERM);
  ASSERT_TRUE(server->WaitForStandardError("draining").ok());
  const auto client = client::Client::Create({.target = server->grpc_address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto health = (*client)->CheckHealth("");
  EXPECT_TRUE(health.ok() && *health == client::Health::kNotServing) << health.status();
  const auto ready = server->Get("/readyz");
  EXPECT_TRUE(ready.ok() && ready->status == 503) << ready.status();
  const auto alive = server->Get("/livez");
  EXPECT_TRUE(alive.ok() && alive->status == 200) << alive.status();
}

TEST(DrainTest, ClientsOfTwoServersNoticeNothingWhenOneEnds) {
  const std::vector<std::string> flags = {"--max_queued_requests=100000"};
  const auto first = StartServer(flags);
  const auto second = StartServer(flags);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  Storm storm(absl::StrCat("ipv4:", first->grpc_address(), ",", second->grpc_address()), {.timeout = kGenerous});
  ASSERT_TRUE(first->WaitForMetric(kAnswered, [](double value) { return value > 1000; }).ok());
  first->process().Signal(SIGTERM);
  EXPECT_EQ(AwaitExit(*first, absl::Seconds(15)), 0);
  EXPECT_THAT(first->process().StandardError(), Not(HasSubstr("drain_timeout has passed")));
  const double then = second->Metric(kAnswered).value_or(0);
  EXPECT_TRUE(second->WaitForMetric(kAnswered, [=](double value) { return value > then + 1000; }).ok());
  const auto ends = storm.Stop();
  EXPECT_THAT(ends, ::testing::ElementsAre(::testing::Key(absl::StatusCode::kOk)));
  EXPECT_EQ(second->Stop(), 0);
}

TEST(DrainTest, WithoutRetriesACallIsAnsweredOrTheServerIsGone) {
  const auto server = StartServer({"--max_queued_requests=100000"});
  ASSERT_NE(server, nullptr);
  Storm storm(server->grpc_address(), {.timeout = kGenerous, .fail_fast = true, .retry = false});
  ASSERT_TRUE(server->WaitForMetric(kAnswered, [](double value) { return value > 1000; }).ok());
  server->process().Signal(SIGTERM);
  EXPECT_EQ(AwaitExit(*server, absl::Seconds(15)), 0);
  for (const auto& [code, count] : storm.Stop()) {
    EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kUnavailable ||
                code == absl::StatusCode::kCancelled)
        << count << " calls ended with " << absl::StatusCodeToString(code);
  }
}

}  // namespace
}  // namespace attend::testing
