// The accept loop with real sockets and a handler that only keeps them: what gRPC does with them is shown in
// tests/integration. Runs under ThreadSanitizer.
#include "server/connection_acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/listening_address.h"

namespace attend::server {
namespace {

constexpr absl::Duration kGenerous = absl::Seconds(60);

// Whoever serves: keeps connections until it is told to close them.
class Keeper {
 public:
  void Keep(Descriptor connection) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      kept_.push_back(std::move(connection));
    }
    changed_.notify_all();
  }

  bool Await(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoNanoseconds(kGenerous), [&] { return kept_.size() >= count; });
  }

  size_t size() {
    std::lock_guard<std::mutex> lock(mutex_);
    return kept_.size();
  }

  // Closes the first of them.
  void Close(size_t count) {
    std::lock_guard<std::mutex> lock(mutex_);
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Descriptor> kept_;
};

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  void Start(const ConnectionAcceptor::Limits& limits, const std::vector<std::string>& addresses = {"127.0.0.1:0"}) {
    std::vector<int> listeners;
    for (const std::string& text : addresses) {
      auto listening = ListeningAddress::Create(text);
      ASSERT_TRUE(listening.ok()) << listening.status();
      for (const Descriptor& socket : (*listening)->sockets()) listeners.push_back(socket.number());
      listening_.push_back(*std::move(listening));
    }
    auto acceptor = ConnectionAcceptor::Create(
        listeners, limits, [this](Descriptor connection, int /*listener*/) { keeper_.Keep(std::move(connection)); });
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  Descriptor Connect(size_t address = 0) {
    const auto raw = Resolve(listening_[address]->address());
    EXPECT_TRUE(raw.ok()) << raw.status();
    Descriptor client(socket(raw->front().storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.number(), raw->front().get(), raw->front().length), 0);
    return client;
  }

  // Whether the server has closed its end.
  static bool AwaitClosed(const Descriptor& client) {
    pollfd entry{.fd = client.number(), .events = POLLIN, .revents = 0};
    std::array<char, 1> byte;
    return poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kGenerous))) == 1 &&
           recv(client.number(), byte.data(), byte.size(), 0) <= 0;
  }

  Keeper keeper_;
  std::vector<std::unique_ptr<ListeningAddress>> listening_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

TEST_F(ConnectionAcceptorTest, HandsOverConnectionsFromAllAddresses) {
  Start({}, {"127.0.0.1:0", "127.0.0.1:0", absl::StrCat("unix:", ::testing::TempDir(), "/acceptor-", getpid())});
  std::vector<Descriptor> clients;
  for (size_t i = 0; i < 3; ++i) clients.push_back(Connect(i));
  EXPECT_TRUE(keeper_.Await(3));
  EXPECT_EQ(acceptor_->open_connections(), 3);
  EXPECT_EQ(acceptor_->counts().accepted, 3);
  EXPECT_EQ(acceptor_->counts().refused_for_max_connections, 0);
}

TEST_F(ConnectionAcceptorTest, BeyondTheLimitAConnectionIsClosedAtOnce) {
  Start({.max_connections = 2});
  std::vector<Descriptor> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(Connect());
  ASSERT_TRUE(keeper_.Await(2));
  for (int i = 1; i <= 5; ++i) {
    EXPECT_TRUE(AwaitClosed(Connect()));
    EXPECT_EQ(acceptor_->counts().refused_for_max_connections, i);
  }
  EXPECT_EQ(acceptor_->open_connections(), 2);
  EXPECT_EQ(keeper_.size(), 2);
  EXPECT_EQ(acceptor_->counts().accepted, 7);
}

TEST_F(ConnectionAcceptorTest, WhatIsClosedMakesRoom) {
  Start({.max_connections = 2});
  std::vector<Descriptor> clients;
  for (size_t i = 1; i <= 10; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(keeper_.Await(std::min<size_t>(i, 2))) << i;
    if (i >= 2) keeper_.Close(1);
  }
  EXPECT_EQ(acceptor_->open_connections(), 1);
  EXPECT_EQ(acceptor_->counts().refused_for_max_connections, 0);
}

TEST_F(ConnectionAcceptorTest, DescriptorsBeyondTheEndAreRefused) {
  // The next free number, and with it every later connection, is at the end or beyond.
  const Descriptor next(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Start({.descriptor_end = next.number()});
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(AwaitClosed(Connect()));
    EXPECT_EQ(acceptor_->counts().refused_for_descriptors, i);
  }
  EXPECT_EQ(keeper_.size(), 0);
}

// As many as the process may have are in use: accepting fails, again and again, and goes on once there is one.
TEST_F(ConnectionAcceptorTest, WithoutDescriptorsItPausesAndGoesOn) {
  Start({});
  Descriptor first = Connect();
  ASSERT_TRUE(keeper_.Await(1));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto raw = Resolve(listening_[0]->address());
  const Descriptor second(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor probe(open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(probe.number()) + 1;  // the lowest free number is not allowed any more
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(connect(second.number(), raw->front().get(), raw->front().length), 0) << "the kernel lets it wait";
  while (acceptor_->counts().pauses < 3) std::this_thread::yield();
  EXPECT_EQ(acceptor_->counts().accepted, 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(keeper_.Await(2));
}

TEST_F(ConnectionAcceptorTest, TellsWhenAConnectionIsAccepted) {
  Start({});
  EXPECT_EQ(acceptor_->AwaitAccepted(0, absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  const Descriptor client = Connect();
  EXPECT_TRUE(acceptor_->AwaitAccepted(0, kGenerous).ok());
  EXPECT_EQ(acceptor_->AwaitAccepted(1, absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ConnectionAcceptorTest, EndsWithConnectionsOpen) {
  Start({});
  const Descriptor client = Connect();
  ASSERT_TRUE(keeper_.Await(1));
  acceptor_.reset();
  EXPECT_EQ(keeper_.size(), 1) << "they belong to whoever serves them";
}

// Clients that come and go at any moment, a server that closes at any moment, counts asked for meanwhile.
TEST_F(ConnectionAcceptorTest, CountsReturnToZeroAfterAStorm) {
  static constexpr int64_t kMax = 8;
  constexpr int kThreads = 4;
  constexpr int kConnections = 200;
  Start({.max_connections = kMax});
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, seed] {
      std::mt19937 random(seed + i);
      std::vector<Descriptor> clients;
      for (int k = 0; k < kConnections; ++k) {
        clients.push_back(Connect());
        if (random() % 2 == 0) clients.clear();
        EXPECT_LE(acceptor_->open_connections(), kMax);
      }
    });
  }
  std::thread closer([this] {
    while (acceptor_->counts().accepted < int64_t{kThreads} * kConnections) keeper_.Close(keeper_.size() > 0 ? 1 : 0);
  });
  for (std::thread& thread : threads) thread.join();
  closer.join();
  acceptor_->open_connections();
  keeper_.Close(keeper_.size());
  EXPECT_EQ(acceptor_->open_connections(), 0);
  const ConnectionAcceptor::Counts counts = acceptor_->counts();
  EXPECT_EQ(counts.accepted, int64_t{kThreads} * kConnections);
  EXPECT_EQ(counts.pauses, 0);
}

}  // namespace
}  // namespace attend::server
