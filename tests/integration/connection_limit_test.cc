// What a server allows one connection, and all of them: number, time, headers, pings.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "attend/v1/attention.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/testing/plain_connection.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kGenerous = absl::Seconds(60);
constexpr char kRefused[] = "attend_connections_refused_total{reason=\"max_connections\"}";

class ConnectionLimitTest : public ::testing::Test {
 protected:
  void StartServer(std::vector<std::string> flags) {
    auto server = ServerProcess::Start({.flags = std::move(flags)});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_EQ(server_->Stop(), 0) << server_->process().StandardError();
  }

  std::unique_ptr<PlainConnection> Connect() {
    auto connection = PlainConnection::Connect(server_->grpc_address());
    EXPECT_TRUE(connection.ok()) << connection.status();
    return connection.ok() ? *std::move(connection) : nullptr;
  }

  // A connection of its own, made by its first call.
  std::shared_ptr<grpc::Channel> NewChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments);
  }

  static grpc::Status Check(const std::shared_ptr<grpc::Channel>& channel, const std::string& metadata = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!metadata.empty()) context.AddMetadata("x-test", metadata);
    HealthCheckResponse response;
    return Health::NewStub(channel)->Check(&context, HealthCheckRequest(), &response);
  }

  absl::Status AwaitConnections(double count) {
    return server_->WaitForMetric("attend_connections", [=](double value) { return value == count; });
  }

  std::unique_ptr<ServerProcess> server_;
};

TEST_F(ConnectionLimitTest, BeyondMaxConnectionsANewOneIsClosedAtOnce) {
  StartServer({"--max_connections=4"});
  std::vector<std::unique_ptr<PlainConnection>> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(Connect());
    ASSERT_TRUE(held.back()->Send(Http2Greeting()));
  }
  ASSERT_TRUE(AwaitConnections(4).ok());
  for (int i = 1; i <= 3; ++i) {
    const auto refused = Connect();
    EXPECT_TRUE(refused->ReadUntilClosed(kGenerous));
    EXPECT_EQ(refused->received(), "");
    EXPECT_EQ(server_->Metric(kRefused).value_or(-1), i);
  }
  EXPECT_EQ(server_->Metric("attend_connections").value_or(-1), 4);
  held.pop_back();
  ASSERT_TRUE(AwaitConnections(3).ok());
  EXPECT_TRUE(Check(NewChannel()).ok());
  held.clear();
  EXPECT_TRUE(AwaitConnections(0).ok());
  EXPECT_EQ(server_->Metric(kRefused).value_or(-1), 3);
}

TEST_F(ConnectionLimitTest, AConnectionWithoutCallsIsClosedAfterMaxConnectionIdle) {
  StartServer({"--max_connection_idle=500ms"});
  const auto channel = NewChannel();
  ASSERT_TRUE(Check(channel).ok());
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(60);
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, deadline)) << "the connection is told to end";
  EXPECT_TRUE(AwaitConnections(0).ok());
  EXPECT_TRUE(Check(channel).ok()) << "over a new connection";
}

// A call in flight is not touched: it hears of the drain, over the connection that was told to end long before.
TEST_F(ConnectionLimitTest, AnAgedConnectionEndsWhenItsCallsHave) {
  StartServer({"--max_connection_age=1s", "--drain_delay=60s"});
  const auto channel = NewChannel();
  grpc::ClientContext context;
  HealthCheckResponse state;
  const auto watch = Health::NewStub(channel)->Watch(&context, HealthCheckRequest());
  ASSERT_TRUE(watch->Read(&state));
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(60);
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, deadline)) << "the connection is told to end";
  server_->process().Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(AwaitConnections(0).ok());
}

TEST_F(ConnectionLimitTest, ASilentConnectionIsClosedAfterHandshakeTimeout) {
  StartServer({"--handshake_timeout=50ms"});
  for (const size_t said : {size_t{0}, size_t{10}}) {
    const auto connection = Connect();
    ASSERT_TRUE(connection->Send(Http2Greeting().substr(0, said)));
    EXPECT_TRUE(connection->ReadUntilClosed(kGenerous)) << said;
  }
  EXPECT_TRUE(AwaitConnections(0).ok());
}

TEST_F(ConnectionLimitTest, MetadataIsBounded) {
  StartServer({"--max_metadata_bytes=4KiB"});
  const auto channel = NewChannel();
  const grpc::Status small = Check(channel, std::string(2048, 'x'));
  EXPECT_TRUE(small.ok()) << small.error_code() << small.error_message();
  EXPECT_EQ(Check(channel, std::string(8192, 'x')).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(AwaitConnections(0).ok()) << "gRPC gives up the whole connection";
  EXPECT_TRUE(Check(NewChannel()).ok());
}

TEST_F(ConnectionLimitTest, WhoPingsTooOftenIsDisconnected) {
  StartServer({"--min_ping_interval=1h"});
  const auto connection = Connect();
  ASSERT_TRUE(connection->Send(Http2Greeting()));
  for (int i = 0; i < 10; ++i) connection->Send(Http2Ping());
  EXPECT_TRUE(connection->ReadUntilClosed(kGenerous));
  EXPECT_THAT(connection->received(), HasSubstr("too_many_pings"));
}

// Each ping comes when the interval has passed twice since the one before.
TEST_F(ConnectionLimitTest, WhoPingsAtHalfTheRateIsNot) {
  StartServer({"--min_ping_interval=10ms"});
  const auto connection = Connect();
  ASSERT_TRUE(connection->Send(Http2Greeting()));
  for (int i = 0; i < 10; ++i) {
    ASSERT_FALSE(connection->ReadUntilClosed(absl::Milliseconds(20))) << i;
    ASSERT_TRUE(connection->Send(Http2Ping()));
  }
  EXPECT_FALSE(connection->ReadUntilClosed(absl::Milliseconds(100)));
  EXPECT_THAT(connection->received(), Not(HasSubstr("too_many_pings")));
}

TEST_F(ConnectionLimitTest, StreamsOfOneConnectionAreBounded) {
  StartServer({"--max_streams_per_connection=5"});
  const auto connection = Connect();
  ASSERT_TRUE(connection->Send(Http2Greeting()));
  // SETTINGS_MAX_CONCURRENT_STREAMS (3) is 5.
  EXPECT_TRUE(connection->ReadUntil(absl::string_view("\0\x3\0\0\0\x5", 6), kGenerous));
}

}  // namespace
}  // namespace attend::testing
