#include "server/http_request_collector.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::ElementsAre;

constexpr char kRequest[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

class HttpRequestCollectorTest : public ::testing::Test {
 protected:
  void Start(const HttpRequestCollector::Limits& limits) {
    auto collector = HttpRequestCollector::Create(limits, [this](Descriptor /*connection*/, std::string request) {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        requests_.push_back(std::move(request));
      }
      changed_.notify_all();
    });
    ASSERT_TRUE(collector.ok()) << collector.status();
    collector_ = *std::move(collector);
  }

  // The client's end of a connection whose other end is being read.
  Descriptor Connect() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    collector_->Add(Descriptor(ends[1]));
    return Descriptor(ends[0]);
  }

  static bool Send(const Descriptor& client, absl::string_view bytes) {
    return send(client.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  // Waits until the server has closed its end.
  static bool AwaitClosed(const Descriptor& client) {
    std::array<char, 1> byte;
    return recv(client.number(), byte.data(), byte.size(), 0) <= 0;
  }

  std::vector<std::string> AwaitRequests(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return requests_.size() >= count; });
    return requests_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> requests_;
  std::unique_ptr<HttpRequestCollector> collector_;
};

TEST_F(HttpRequestCollectorTest, HandsOnARequestHoweverItArrives) {
  Start({.timeout = absl::Seconds(600)});
  const std::string request = kRequest;
  for (size_t first = 1; first < request.size(); ++first) {
    const Descriptor client = Connect();
    ASSERT_TRUE(Send(client, request.substr(0, first)));
    ASSERT_TRUE(Send(client, request.substr(first)));
    ASSERT_THAT(AwaitRequests(first).back(), request) << first;
    EXPECT_TRUE(AwaitClosed(client)) << "by whoever got it";
  }
}

TEST_F(HttpRequestCollectorTest, WhatFollowsTheHeadersComesAlong) {
  Start({.timeout = absl::Seconds(600)});
  const Descriptor client = Connect();
  const std::string request = std::string(kRequest) + "body";
  ASSERT_TRUE(Send(client, request));
  EXPECT_THAT(AwaitRequests(1), ElementsAre(request));
}

TEST_F(HttpRequestCollectorTest, ASlowOneKeepsNobodyWaiting) {
  Start({.timeout = absl::Seconds(600)});
  std::vector<Descriptor> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(Connect());
    ASSERT_TRUE(Send(slow.back(), "GET / HTTP/1.1\r\n"));
  }
  const Descriptor client = Connect();
  ASSERT_TRUE(Send(client, kRequest));
  EXPECT_THAT(AwaitRequests(1), ElementsAre(kRequest));
}

TEST_F(HttpRequestCollectorTest, TheOldestMakesRoom) {
  Start({.max_waiting = 2, .timeout = absl::Seconds(600)});
  const Descriptor first = Connect();
  const Descriptor second = Connect();
  const Descriptor third = Connect();
  EXPECT_TRUE(AwaitClosed(first));
  ASSERT_TRUE(Send(second, kRequest));
  ASSERT_TRUE(Send(third, kRequest));
  EXPECT_EQ(AwaitRequests(2).size(), 2);
}

TEST_F(HttpRequestCollectorTest, TimeAndSizeAreBounded) {
  Start({.timeout = absl::Milliseconds(20), .max_bytes = 1000});
  const Descriptor silent = Connect();
  EXPECT_TRUE(AwaitClosed(silent));
  const Descriptor dribbling = Connect();
  while (Send(dribbling, "x")) {
  }
  Start({.timeout = absl::Seconds(600), .max_bytes = 1000});
  const Descriptor large = Connect();
  ASSERT_TRUE(Send(large, std::string(1000, 'x')));
  EXPECT_TRUE(AwaitClosed(large));
  EXPECT_TRUE(requests_.empty());
}

TEST_F(HttpRequestCollectorTest, ForgetsWhoLeaves) {
  Start({.max_waiting = 1, .timeout = absl::Seconds(600)});
  Connect();  // and away
  const Descriptor client = Connect();
  ASSERT_TRUE(Send(client, kRequest));
  EXPECT_THAT(AwaitRequests(1), ElementsAre(kRequest));
}

TEST_F(HttpRequestCollectorTest, ClosesWhatWaitsAtItsEnd) {
  Start({.timeout = absl::Seconds(600)});
  const Descriptor client = Connect();
  collector_.reset();
  EXPECT_TRUE(AwaitClosed(client));
}

}  // namespace
}  // namespace attend::server
