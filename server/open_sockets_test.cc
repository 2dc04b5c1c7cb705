#include "server/open_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>

#include "gtest/gtest.h"
#include "server/descriptor.h"

namespace attend::server {
namespace {

struct SocketPair {
  SocketPair() {
    std::array<int, 2> numbers{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers.data()), 0);
    one = Descriptor(numbers[0]);
    other = Descriptor(numbers[1]);
  }
  Descriptor one;
  Descriptor other;
};

TEST(OpenSocketsTest, CountsUntilTheOwnerCloses) {
  OpenSockets sockets;
  EXPECT_EQ(sockets.Count(), 0);
  SocketPair pair;
  sockets.Add(pair.one.number());
  sockets.Add(pair.other.number());
  EXPECT_EQ(sockets.Count(), 2);
  pair.one = Descriptor();
  EXPECT_EQ(sockets.upper_bound(), 2) << "nobody has looked";
  EXPECT_EQ(sockets.Count(), 1) << "the peer's end of a connection is open though nobody is at the other";
  pair.other = Descriptor();
  EXPECT_EQ(sockets.Count(), 0);
  EXPECT_EQ(sockets.upper_bound(), 0);
}

TEST(OpenSocketsTest, ANumberThatIsUsedAgainIsAnotherSocket) {
  OpenSockets sockets;
  SocketPair pair;
  const int number = pair.one.number();
  sockets.Add(number);
  pair.one = Descriptor();
  // The lowest free number goes to the next file.
  const Descriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(file.number(), number);
  EXPECT_EQ(sockets.Count(), 0);
}

TEST(OpenSocketsTest, ASocketAddedUnderAUsedNumberReplacesTheClosedOne) {
  OpenSockets sockets;
  SocketPair pair;
  const int number = pair.one.number();
  sockets.Add(number);
  pair.one = Descriptor();
  const Descriptor next(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(next.number(), number);
  EXPECT_EQ(sockets.Count(), 0);
  sockets.Add(next.number());
  EXPECT_EQ(sockets.Count(), 1);
}

}  // namespace
}  // namespace attend::server
