#include "server/connection_watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "server/descriptor.h"

namespace attend::server {
namespace {

constexpr int64_t kPerCall = 1000;
constexpr int64_t kBesides = 100;

// A connection over the loopback interface; the server's end is non-blocking.
struct Pair {
  Descriptor client;
  Descriptor server;
  std::string peer;  // the name of the client
};

Pair Connect() {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(listener.number(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(listen(listener.number(), 1), 0);
  getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &length);
  Pair pair;
  pair.client = Descriptor(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(pair.client.number(), reinterpret_cast<sockaddr*>(&address), length), 0);
  sockaddr_storage peer = {};
  length = sizeof(peer);
  pair.server = Descriptor(accept4(listener.number(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK));
  pair.peer = ConnectionWatch::PeerName(peer);
  return pair;
}

class ConnectionWatchTest : public ::testing::Test {
 protected:
  ConnectionWatchTest() { watch_.Add(pair_.server.number()); }

  // The kernel has all of it when this returns: the loopback interface delivers at once.
  void Send(size_t bytes) const {
    const std::string zeros(bytes, '\0');
    ASSERT_EQ(send(pair_.client.number(), zeros.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }

  void Inspect(absl::Duration elapsed = absl::ZeroDuration()) { watch_.Inspect(elapsed); }

  ConnectionWatch watch_{
      {.max_calls = 3, .bytes_per_call = kPerCall, .bytes_besides = kBesides, .bytes_per_second = 10},
      absl::InfiniteDuration()};
  const Pair pair_ = Connect();
};

TEST_F(ConnectionWatchTest, NamesPeersAsGrpcDoes) {
  sockaddr_storage address = {};
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(80);
  six.sin6_addr = in6addr_loopback;
  EXPECT_EQ(ConnectionWatch::PeerName(address), "ipv6:%5B::1%5D:80");
  inet_pton(AF_INET6, "::ffff:10.1.2.3", &six.sin6_addr);
  EXPECT_EQ(ConnectionWatch::PeerName(address), "ipv4:10.1.2.3:80");
  address.ss_family = AF_UNIX;
  EXPECT_EQ(ConnectionWatch::PeerName(address), "");
  EXPECT_EQ(pair_.peer.substr(0, 15), "ipv4:127.0.0.1:");
}

TEST_F(ConnectionWatchTest, AConnectionWithTooManyCallsIsAbortedAndWhatItSentDropped) {
  Send(50);
  for (int i = 0; i < 3; ++i) watch_.BeginCall(pair_.peer);
  EXPECT_EQ(watch_.aborted(), 0);
  watch_.EndCall(pair_.peer);
  watch_.BeginCall(pair_.peer);
  EXPECT_EQ(watch_.aborted(), 0);
  watch_.BeginCall(pair_.peer);
  watch_.BeginCall(pair_.peer);
  EXPECT_EQ(watch_.aborted(), 1);
  std::array<char, 16> bytes;
  EXPECT_LE(recv(pair_.server.number(), bytes.data(), bytes.size(), 0), 0) << "nothing of the 50 bytes";
  EXPECT_EQ(recv(pair_.client.number(), bytes.data(), bytes.size(), 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(ConnectionWatchTest, BytesThatNoCallExplainsAreTooMany) {
  Send(kBesides);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 0);
  Send(1);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 1);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 1) << "once";
}

TEST_F(ConnectionWatchTest, CallsExplainBytesWhileTheyAreThereAndAfterwards) {
  watch_.BeginCall(pair_.peer);
  Send(kPerCall);
  Inspect();
  watch_.EndCall(pair_.peer);
  Inspect();
  watch_.CountCall(pair_.peer);
  Send(kPerCall);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 0);
}

TEST_F(ConnectionWatchTest, WhatACallDidNotSendIsNoCredit) {
  for (int i = 0; i < 100; ++i) watch_.CountCall(pair_.peer);
  Inspect();
  Send(2 * kPerCall);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 1);
}

// Whoever receives much says often that there is room again.
TEST_F(ConnectionWatchTest, ResponsesExplainTheirWindowUpdates) {
  watch_.BeginCall(pair_.peer);
  watch_.EndCall(pair_.peer, 1 << 20);
  Send(8000);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 0);
  Send(4000);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 1);
}

TEST_F(ConnectionWatchTest, MessagesExplainThemselves) {
  watch_.BeginCall(pair_.peer);
  watch_.BeginMessage(pair_.peer, 5000);
  Send(5000);
  Inspect();
  watch_.EndMessage(pair_.peer, 5000, 5000);
  watch_.EndCall(pair_.peer);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 0);
  Send(2000);
  Inspect();
  EXPECT_EQ(watch_.aborted(), 1);
}

TEST_F(ConnectionWatchTest, ResetsAreForgivenByAndBy) {
  for (int i = 0; i < 100; ++i) {
    watch_.CountReset(pair_.peer);
    Inspect(absl::Seconds(10));
  }
  for (int i = 0; i < 3; ++i) watch_.CountReset(pair_.peer);
  EXPECT_EQ(watch_.aborted(), 0);
  watch_.CountReset(pair_.peer);
  EXPECT_EQ(watch_.aborted(), 1);
}

TEST_F(ConnectionWatchTest, PingsAreExplainedByTime) {
  for (int i = 0; i < 100; ++i) {
    Send(17);
    Inspect(absl::Seconds(2));
  }
  EXPECT_EQ(watch_.aborted(), 0);
}

TEST_F(ConnectionWatchTest, WhatIsNotWatchedIsLeftAlone) {
  for (int i = 0; i < 10; ++i) watch_.BeginCall("unix:");
  watch_.EndCall("ipv4:127.0.0.1:1");
  const int before = fcntl(pair_.server.number(), F_GETFD);
  Inspect();
  EXPECT_EQ(fcntl(pair_.server.number(), F_GETFD), before);
  EXPECT_EQ(watch_.aborted(), 0);
}

TEST(ConnectionWatchThreadTest, LooksByItself) {
  ConnectionWatch watch({.max_calls = 1, .bytes_per_call = 1, .bytes_besides = 0, .bytes_per_second = 0},
                        absl::Milliseconds(1));
  const Pair pair = Connect();
  watch.Add(pair.server.number());
  ASSERT_EQ(send(pair.client.number(), "x", 1, 0), 1);
  std::array<char, 1> byte;
  EXPECT_EQ(recv(pair.client.number(), byte.data(), 1, 0), -1) << "waits until it is aborted";
  EXPECT_EQ(watch.aborted(), 1);
}

}  // namespace
}  // namespace attend::server
