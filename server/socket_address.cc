#include "server/socket_address.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/descriptor.h"

namespace attend::server {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

absl::Status Unavailable(int error) { return absl::UnavailableError(std::strerror(error)); }

absl::StatusOr<RawAddress> ResolveUnix(const std::string& path) {
  RawAddress raw;
  auto* address = reinterpret_cast<sockaddr_un*>(&raw.storage);
  if (path.size() >= sizeof(address->sun_path)) return Unavailable(ENAMETOOLONG);
  address->sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address->sun_path);
  raw.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return raw;
}

absl::Status AwaitConnection(int socket, absl::Duration timeout) {
  pollfd poll_entry{.fd = socket, .events = POLLOUT, .revents = 0};
  if (poll(&poll_entry, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) {
    return absl::DeadlineExceededError("no answer in time");
  }
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : Unavailable(error);
}

}  // namespace

absl::Status CheckSocketAddress(absl::string_view text) {
  const absl::Status malformed =
      absl::InvalidArgumentError("must be host:port, [address]:port or unix:/path (port 0: a free one)");
  if (absl::StartsWith(text, kUnixPrefix)) return text.size() > kUnixPrefix.size() ? absl::OkStatus() : malformed;
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return malformed;
  const absl::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find_first_of(":[] /") != absl::string_view::npos) return malformed;
  int port = 0;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 || port > 65535) return malformed;
  return absl::OkStatus();
}

SocketAddress ParseSocketAddress(absl::string_view text) {
  SocketAddress address;
  if (absl::ConsumePrefix(&text, kUnixPrefix)) {
    address.host = std::string(text);
    address.is_unix = true;
    return address;
  }
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  address.host = std::string(host);
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port)) address.port = 0;
  return address;
}

std::string WithPort(const SocketAddress& address, int port) {
  if (address.is_unix) return absl::StrCat(kUnixPrefix, address.host);
  const bool is_v6 = absl::StrContains(address.host, ':');
  return is_v6 ? absl::StrCat("[", address.host, "]:", port) : absl::StrCat(address.host, ":", port);
}

absl::StatusOr<std::vector<RawAddress>> Resolve(const SocketAddress& address) {
  if (address.is_unix) {
    const absl::StatusOr<RawAddress> raw = ResolveUnix(address.host);
    if (!raw.ok()) return raw.status();
    return std::vector<RawAddress>{*raw};
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<RawAddress> all;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    RawAddress& raw = all.emplace_back();
    std::memcpy(&raw.storage, entry->ai_addr, entry->ai_addrlen);
    raw.length = entry->ai_addrlen;
  }
  return all;
}

absl::Status CheckListening(const SocketAddress& address, absl::Duration timeout) {
  SocketAddress target = address;
  if (target.host == "0.0.0.0") target.host = "127.0.0.1";
  if (target.host == "::") target.host = "::1";
  const absl::StatusOr<std::vector<RawAddress>> all = Resolve(target);
  if (!all.ok()) return all.status();
  const RawAddress& raw = all->front();
  const Descriptor descriptor(socket(raw.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!descriptor.valid()) return Unavailable(errno);
  if (connect(descriptor.number(), raw.get(), raw.length) == 0) return absl::OkStatus();
  return errno == EINPROGRESS ? AwaitConnection(descriptor.number(), timeout) : Unavailable(errno);
}

}  // namespace attend::server
