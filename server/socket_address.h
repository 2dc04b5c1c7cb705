// Addresses as settings write them: "host:port", "[v6]:port" or "unix:/path".
#ifndef ATTEND_SERVER_SOCKET_ADDRESS_H_
#define ATTEND_SERVER_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attend::server {

struct SocketAddress {
  std::string host;  // without brackets; of a unix address the path
  int port = 0;
  bool is_unix = false;
};

// INVALID_ARGUMENT, "must be ...", if `text` is no such address. Names are not looked up.
absl::Status CheckSocketAddress(absl::string_view text);

// The parts of an address that passed the check.
SocketAddress ParseSocketAddress(absl::string_view text);

// "host:port" or "[v6]:port" with another port; "unix:/path" as it is.
std::string WithPort(const SocketAddress& address, int port);

// An address as the system calls take it.
struct RawAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// All that `address` stands for, at least one: a name may have several. UNAVAILABLE with the reason: no such name, a
// path that is too long.
absl::StatusOr<std::vector<RawAddress>> Resolve(const SocketAddress& address);

// Whether somebody listens on `address`: connects to it and hangs up. Of an address that stands for all interfaces
// (0.0.0.0, ::) to the loopback one. UNAVAILABLE with the reason; DEADLINE_EXCEEDED after `timeout`.
absl::Status CheckListening(const SocketAddress& address, absl::Duration timeout);

}  // namespace attend::server

#endif  // ATTEND_SERVER_SOCKET_ADDRESS_H_
