#include "server/listening_address.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::server {
namespace {

// Connections that the kernel completes before they are accepted; it lowers this to net.core.somaxconn.
constexpr int kBacklog = 4096;

// IPv4 and IPv6 have the port at the same place.
constexpr size_t kPortOffset = offsetof(sockaddr_in, sin_port);
static_assert(kPortOffset == offsetof(sockaddr_in6, sin6_port));

// NOT_FOUND where this machine does not have the address, or its family, at all.
absl::Status StatusOf(int error) {
  const bool absent = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
  return absent ? absl::NotFoundError(std::strerror(error)) : absl::UnavailableError(std::strerror(error));
}

void Switch(int socket, int level, int option, bool on) {
  const int value = on ? 1 : 0;
  setsockopt(socket, level, option, &value, sizeof(value));
}

bool IsWildcard(const RawAddress& raw) {
  sockaddr_in6 address = {};
  std::memcpy(&address, &raw.storage, sizeof(address));
  return address.sin6_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr);
}

void SetPort(int port, RawAddress& raw) {
  const in_port_t value = htons(static_cast<in_port_t>(port));
  std::memcpy(reinterpret_cast<char*>(&raw.storage) + kPortOffset, &value, sizeof(value));
}

int PortOf(int socket) {
  RawAddress raw;
  raw.length = sizeof(raw.storage);
  if (getsockname(socket, raw.get(), &raw.length) != 0) return 0;
  in_port_t value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&raw.storage) + kPortOffset, sizeof(value));
  return ntohs(value);
}

absl::StatusOr<Descriptor> Listen(const RawAddress& raw) {
  const int family = raw.storage.ss_family;
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return StatusOf(errno);
  if (family != AF_UNIX) {
    // A server that starts again need not wait for its predecessor's connections; SO_REUSEPORT stays off.
    Switch(socket.number(), SOL_SOCKET, SO_REUSEADDR, true);
    Switch(socket.number(), IPPROTO_TCP, TCP_NODELAY, true);
  }
  if (family == AF_INET6) Switch(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, !IsWildcard(raw));
  if (bind(socket.number(), raw.get(), raw.length) != 0) return StatusOf(errno);
  if (listen(socket.number(), kBacklog) != 0) return StatusOf(errno);
  return socket;
}

// Removes the socket that a process which was killed has left. EADDRINUSE if somebody listens on it, or if `path` is
// something else.
absl::Status RemoveStaleSocket(const std::string& path, const RawAddress& raw) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return absl::OkStatus();  // bind says what is wrong with the folder
  if (!S_ISSOCK(status.st_mode)) return StatusOf(EADDRINUSE);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return StatusOf(errno);
  const bool stale = connect(socket.number(), raw.get(), raw.length) != 0 && errno == ECONNREFUSED;
  if (!stale) return StatusOf(EADDRINUSE);
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : StatusOf(errno);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListeningAddress>> ListeningAddress::Create(const std::string& text) {
  std::unique_ptr<ListeningAddress> listening(new ListeningAddress(ParseSocketAddress(text)));
  const absl::Status status = listening->address_.is_unix ? listening->ListenOnPath() : listening->ListenOnPort();
  if (status.ok()) return listening;
  return absl::UnavailableError(absl::StrCat(text, " cannot be listened on: ", status.message()));
}

ListeningAddress::~ListeningAddress() {
  struct stat status = {};
  if (inode_ != 0 && lstat(address_.host.c_str(), &status) == 0 && status.st_ino == inode_) {
    unlink(address_.host.c_str());
  }
}

absl::Status ListeningAddress::ListenOnPath() {
  const absl::StatusOr<std::vector<RawAddress>> raw = Resolve(address_);
  if (!raw.ok()) return raw.status();
  if (absl::Status status = RemoveStaleSocket(address_.host, raw->front()); !status.ok()) return status;
  absl::StatusOr<Descriptor> socket = Listen(raw->front());
  if (!socket.ok()) return socket.status();
  sockets_.push_back(*std::move(socket));
  struct stat status = {};
  if (lstat(address_.host.c_str(), &status) == 0) inode_ = status.st_ino;
  return absl::OkStatus();
}

// A name such as localhost may have an address of a family that this machine does not use: one that can be had is
// enough, but what another process has is an error.
absl::Status ListeningAddress::ListenOnPort() {
  absl::StatusOr<std::vector<RawAddress>> all = Resolve(address_);
  if (!all.ok()) return all.status();
  absl::Status failure;
  for (RawAddress& raw : *all) {
    SetPort(address_.port, raw);
    absl::StatusOr<Descriptor> socket = Listen(raw);
    if (!socket.ok()) {
      failure = socket.status();
      if (absl::IsNotFound(failure)) continue;
      return failure;
    }
    if (address_.port == 0) address_.port = PortOf(socket->number());
    sockets_.push_back(*std::move(socket));
  }
  return sockets_.empty() ? failure : absl::OkStatus();
}

}  // namespace attend::server
