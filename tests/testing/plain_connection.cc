#include "tests/testing/plain_connection.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace attend::testing {
namespace {

absl::Status Failure(const std::string& address, const char* reason) {
  return absl::UnavailableError(absl::StrCat("cannot connect to ", address, ": ", reason));
}

}  // namespace

absl::string_view Http2Greeting() {
  static constexpr char kBytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x4\0\0\0\0\0";
  return {kBytes, sizeof(kBytes) - 1};
}

absl::string_view Http2Ping() {
  static constexpr char kBytes[] = "\0\0\x8\x6\0\0\0\0\0attendpi";
  return {kBytes, sizeof(kBytes) - 1};
}

absl::StatusOr<std::unique_ptr<PlainConnection>> PlainConnection::Connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Failure(address, "no port");
  absl::string_view host(address.data(), colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return Failure(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return Failure(address, std::strerror(errno));
  std::unique_ptr<PlainConnection> connection(new PlainConnection(descriptor));
  if (connect(descriptor, found->ai_addr, found->ai_addrlen) != 0) return Failure(address, std::strerror(errno));
  return connection;
}

PlainConnection::~PlainConnection() { close(socket_); }

bool PlainConnection::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return false;
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  return true;
}

bool PlainConnection::Read(absl::Duration timeout, absl::string_view text) {
  const absl::Time end = absl::Now() + timeout;
  while (!closed_ && (text.empty() || !absl::StrContains(received_, text))) {
    const int64_t left = absl::ToInt64Milliseconds(absl::Ceil(end - absl::Now(), absl::Milliseconds(1)));
    pollfd entry{.fd = socket_, .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) == 0) return false;
    std::array<char, 4096> bytes;
    const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
    if (count > 0) received_.append(bytes.data(), static_cast<size_t>(count));
    closed_ = count == 0 || (count < 0 && errno != EINTR);
  }
  return true;
}

}  // namespace attend::testing
