#include "server/socket_address.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/listening_address.h"

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
  absl::StatusOr<std::unique_ptr<ListeningAddress>> listening = ListeningAddress::Create("127.0.0.1:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  const SocketAddress address = (*listening)->address();
  const SocketAddress everywhere = {.host = "0.0.0.0", .port = address.port};
  EXPECT_TRUE(CheckListening(address, absl::Seconds(5)).ok());
  EXPECT_TRUE(CheckListening(everywhere, absl::Seconds(5)).ok());

  listening->reset();
  EXPECT_THAT(std::string(CheckListening(address, absl::Seconds(5)).message()), HasSubstr("Connection refused"));
  const SocketAddress nobody = ParseSocketAddress("unix:" + ::testing::TempDir() + "/nobody.sock");
  EXPECT_THAT(std::string(CheckListening(nobody, absl::Seconds(5)).message()), HasSubstr("No such file"));
}

TEST(SocketAddressTest, ResolvesToAtLeastOne) {
  for (const std::string text : {"127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/a"}) {
    const auto all = Resolve(ParseSocketAddress(text));
    ASSERT_TRUE(all.ok()) << text << all.status();
    EXPECT_FALSE(all->empty()) << text;
  }
  EXPECT_FALSE(Resolve(ParseSocketAddress("unix:/" + std::string(200, 'x'))).ok());
}

}  // namespace
}  // namespace attend::server
