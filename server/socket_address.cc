#include "server/socket_address.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

namespace attend::server {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

absl::Status Unavailable(int error) { return absl::UnavailableError(std::strerror(error)); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

// An address as the system calls take it.
struct RawAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

absl::StatusOr<RawAddress> ResolveUnix(const std::string& path) {
  RawAddress raw;
  auto* address = reinterpret_cast<sockaddr_un*>(&raw.storage);
  if (path.size() >= sizeof(address->sun_path)) return Unavailable(ENAMETOOLONG);
  address->sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address->sun_path);
  raw.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return raw;
}

absl::StatusOr<RawAddress> Resolve(const SocketAddress& address) {
  if (address.is_unix) return ResolveUnix(address.host);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  RawAddress raw;
  std::memcpy(&raw.storage, found->ai_addr, found->ai_addrlen);
  raw.length = found->ai_addrlen;
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

// Whether gRPC, which replaces a socket that is there, can make one at `path`.
absl::Status CheckPath(const std::string& path) {
  if (const absl::StatusOr<RawAddress> raw = ResolveUnix(path); !raw.ok()) return raw.status();
  struct stat found = {};
  if (lstat(path.c_str(), &found) == 0 && !S_ISSOCK(found.st_mode)) return Unavailable(EADDRINUSE);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return access(folder.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : Unavailable(errno);
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

absl::Status CheckListening(const SocketAddress& address, absl::Duration timeout) {
  SocketAddress target = address;
  if (target.host == "0.0.0.0") target.host = "127.0.0.1";
  if (target.host == "::") target.host = "::1";
  const absl::StatusOr<RawAddress> raw = Resolve(target);
  if (!raw.ok()) return raw.status();
  const Descriptor descriptor(socket(raw->get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (descriptor.number() < 0) return Unavailable(errno);
  if (connect(descriptor.number(), raw->get(), raw->length) == 0) return absl::OkStatus();
  return errno == EINPROGRESS ? AwaitConnection(descriptor.number(), timeout) : Unavailable(errno);
}

absl::Status CheckBindable(const SocketAddress& address) {
  // A unix path is made anew by whoever listens on it: only a living listener is in the way.
  if (address.is_unix) {
    return CheckListening(address, absl::Seconds(1)).ok() ? Unavailable(EADDRINUSE) : CheckPath(address.host);
  }
  const absl::StatusOr<RawAddress> raw = Resolve(address);
  if (!raw.ok()) return raw.status();
  const Descriptor descriptor(socket(raw->get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (descriptor.number() < 0) return Unavailable(errno);
  const int yes = 1;
  setsockopt(descriptor.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(descriptor.number(), raw->get(), raw->length) != 0) return Unavailable(errno);
  return listen(descriptor.number(), 1) == 0 ? absl::OkStatus() : Unavailable(errno);
}

}  // namespace attend::server
