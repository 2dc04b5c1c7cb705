#include "server/listening_address.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Reach(const std::string& address) { return CheckListening(ParseSocketAddress(address), absl::Seconds(5)); }

class ListeningAddressTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/listening-", getpid());
  const std::string path_ = absl::StrCat(folder_, "/attend.sock");
};

TEST_F(ListeningAddressTest, APortOfZeroBecomesAFreeOne) {
  const auto listening = ListeningAddress::Create("127.0.0.1:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_GT((*listening)->address().port, 0);
  EXPECT_EQ((*listening)->text(), absl::StrCat("127.0.0.1:", (*listening)->address().port));
  EXPECT_TRUE(Reach((*listening)->text()).ok());
}

TEST_F(ListeningAddressTest, APortInUseIsAnErrorThatNamesIt) {
  auto first = ListeningAddress::Create("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string text = (*first)->text();
  const absl::Status status = ListeningAddress::Create(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(text), HasSubstr("Address already in use")));
  first->reset();
  EXPECT_THAT(std::string(Reach(text).message()), HasSubstr("Connection refused"));
  EXPECT_TRUE(ListeningAddress::Create(text).ok()) << "free again";
}

// A connection that the server closed first keeps its port in TIME_WAIT.
TEST_F(ListeningAddressTest, APortWhoseConnectionsLingerIsFree) {
  auto first = ListeningAddress::Create("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string text = (*first)->text();
  const auto raw = Resolve((*first)->address());
  ASSERT_TRUE(raw.ok());
  Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.number(), raw->front().get(), raw->front().length), 0);
  Descriptor accepted(accept((*first)->sockets().front().number(), nullptr, nullptr));
  ASSERT_TRUE(accepted.valid());
  accepted = Descriptor();
  client = Descriptor();
  first->reset();
  EXPECT_TRUE(ListeningAddress::Create(text).ok());
}

TEST_F(ListeningAddressTest, ListensOnIpv6Alone) {
  const auto listening = ListeningAddress::Create("[::1]:0");
  if (!listening.ok()) GTEST_SKIP() << "this machine has no IPv6: " << listening.status();
  const int port = (*listening)->address().port;
  EXPECT_EQ((*listening)->text(), absl::StrCat("[::1]:", port));
  EXPECT_TRUE(Reach((*listening)->text()).ok());
  EXPECT_FALSE(Reach(absl::StrCat("127.0.0.1:", port)).ok());
}

TEST_F(ListeningAddressTest, TheIpv6WildcardIsForBoth) {
  const auto listening = ListeningAddress::Create("[::]:0");
  if (!listening.ok()) GTEST_SKIP() << "this machine has no IPv6: " << listening.status();
  EXPECT_TRUE(Reach((*listening)->text()).ok());
  EXPECT_TRUE(Reach(absl::StrCat("127.0.0.1:", (*listening)->address().port)).ok());
}

TEST_F(ListeningAddressTest, ANameIsListenedOnAtAllItsAddresses) {
  const auto listening = ListeningAddress::Create("localhost:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  const auto addresses = Resolve((*listening)->address());
  ASSERT_TRUE(addresses.ok());
  EXPECT_LE((*listening)->sockets().size(), addresses->size());
  EXPECT_TRUE(Reach(absl::StrCat("127.0.0.1:", (*listening)->address().port)).ok());
}

TEST_F(ListeningAddressTest, SaysWhatCannotBeListenedOn) {
  for (const std::string text : {"192.0.2.1:0", "no-such-name.invalid:0"}) {
    const absl::Status status = ListeningAddress::Create(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(ListeningAddressTest, RemovesItsUnixSocketAtItsEnd) {
  {
    const auto listening = ListeningAddress::Create("unix:" + path_);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_EQ((*listening)->text(), "unix:" + path_);
    EXPECT_TRUE(Reach("unix:" + path_).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ListeningAddressTest, AUnixSocketInUseIsAnErrorAndStays) {
  const auto first = ListeningAddress::Create("unix:" + path_);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status status = ListeningAddress::Create("unix:" + path_).status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr("already in use")));
  EXPECT_TRUE(Reach("unix:" + path_).ok());
}

TEST_F(ListeningAddressTest, ReplacesAUnixSocketThatNobodyListensOn) {
  {
    const auto raw = Resolve(ParseSocketAddress("unix:" + path_));
    ASSERT_TRUE(raw.ok());
    const Descriptor left(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(left.number(), raw->front().get(), raw->front().length), 0);
    ASSERT_EQ(listen(left.number(), 1), 0);
  }
  ASSERT_TRUE(std::filesystem::is_socket(path_)) << "as after kill -9";
  const auto listening = ListeningAddress::Create("unix:" + path_);
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_TRUE(Reach("unix:" + path_).ok());
}

TEST_F(ListeningAddressTest, NeverRemovesWhatIsNoSocket) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(std::string(ListeningAddress::Create("unix:" + path_).status().message()), HasSubstr("in use"));
  EXPECT_EQ(std::filesystem::file_size(path_), 8);
  EXPECT_THAT(std::string(ListeningAddress::Create("unix:" + folder_).status().message()), HasSubstr("in use"));
  EXPECT_TRUE(std::filesystem::is_directory(folder_));
}

TEST_F(ListeningAddressTest, LeavesTheSocketOfASuccessor) {
  auto first = ListeningAddress::Create("unix:" + path_);
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove(path_);
  const auto second = ListeningAddress::Create("unix:" + path_);
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(Reach("unix:" + path_).ok());
}

TEST_F(ListeningAddressTest, SaysWhyAPathCannotBeListenedOn) {
  EXPECT_THAT(std::string(ListeningAddress::Create("unix:" + folder_ + "/none/x").status().message()),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(std::string(ListeningAddress::Create("unix:/" + std::string(200, 'x')).status().message()),
              HasSubstr("too long"));
}

}  // namespace
}  // namespace attend::server
