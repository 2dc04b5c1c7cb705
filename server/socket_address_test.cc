#include "server/socket_address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http_server.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

TEST(SocketAddressTest, ReadsHostPortAndPath) {
  for (const std::string text : {"127.0.0.1:8001", "localhost:0", "[::1]:8001", "unix:/run/attend.sock"}) {
    ASSERT_TRUE(CheckSocketAddress(text).ok()) << text;
    const SocketAddress address = ParseSocketAddress(text);
    EXPECT_EQ(WithPort(address, address.port), text);
  }
  EXPECT_EQ(ParseSocketAddress("[::1]:80").host, "::1");
  EXPECT_EQ(ParseSocketAddress("[::1]:80").port, 80);
  EXPECT_TRUE(ParseSocketAddress("unix:/a").is_unix);
}

TEST(SocketAddressTest, RefusesWhatIsNoAddress) {
  for (const std::string text : {"", "host", ":80", "host:", "host:65536", "host:-1", "host:x", "::1:80", "[::1]",
                                 "[]:80", "unix:", "http://host:80", "a b:80"}) {
    EXPECT_EQ(CheckSocketAddress(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(SocketAddressTest, TellsWhetherSomebodyListens) {
  absl::StatusOr<std::unique_ptr<HttpServer>> listener = HttpServer::Create("127.0.0.1:0", {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const SocketAddress address = ParseSocketAddress((*listener)->address());
  const SocketAddress everywhere = {.host = "0.0.0.0", .port = address.port};
  EXPECT_TRUE(CheckListening(address, absl::Seconds(5)).ok());
  EXPECT_TRUE(CheckListening(everywhere, absl::Seconds(5)).ok());
  EXPECT_THAT(std::string(CheckBindable(address).message()), HasSubstr("Address already in use"));

  listener->reset();
  EXPECT_THAT(std::string(CheckListening(address, absl::Seconds(5)).message()), HasSubstr("Connection refused"));
  EXPECT_TRUE(CheckBindable(address).ok());
}

TEST(SocketAddressTest, OfAPathOnlyALivingListenerIsInTheWay) {
  const SocketAddress address = ParseSocketAddress("unix:" + ::testing::TempDir() + "/nobody.sock");
  EXPECT_TRUE(CheckBindable(address).ok());
  EXPECT_THAT(std::string(CheckListening(address, absl::Seconds(5)).message()), HasSubstr("No such file"));
}

TEST(SocketAddressTest, SaysWhyAPathCannotBeListenedOn) {
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(std::string(CheckBindable(ParseSocketAddress("unix:/nonexistent/x")).message()),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(std::string(CheckBindable(ParseSocketAddress("unix:" + folder)).message()), HasSubstr("in use"));
  EXPECT_THAT(std::string(CheckBindable(ParseSocketAddress("unix:/" + std::string(200, 'x'))).message()),
              HasSubstr("too long"));
  EXPECT_TRUE(CheckBindable(ParseSocketAddress("unix:relative.sock")).ok());
}

TEST(SocketAddressTest, SaysWhatCannotBeBound) {
  EXPECT_EQ(CheckBindable({.host = "192.0.2.1", .port = 0}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace attend::server
