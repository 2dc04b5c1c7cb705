// An address that is listened on: bound, with connections waiting in the kernel until somebody accepts them.
#ifndef ATTEND_SERVER_LISTENING_ADDRESS_H_
#define ATTEND_SERVER_LISTENING_ADDRESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/descriptor.h"
#include "server/socket_address.h"

namespace attend::server {

class ListeningAddress {
 public:
  // Listens on `text`, an address that passed CheckSocketAddress. A name is listened on at every address that it has
  // here, [::] for IPv4 too, port 0 at a free one. No port is shared with another process. A unix socket that nobody
  // listens on any more is replaced.
  // UNAVAILABLE, with the address and the reason: in use, not allowed, no such address.
  static absl::StatusOr<std::unique_ptr<ListeningAddress>> Create(const std::string& text);

  // Stops listening: whoever waits is disconnected. Removes the unix socket, if it is still this one.
  ~ListeningAddress();

  ListeningAddress(const ListeningAddress&) = delete;
  ListeningAddress& operator=(const ListeningAddress&) = delete;

  // With the port that is listened on.
  const SocketAddress& address() const { return address_; }
  // The same, as settings write it.
  std::string text() const { return WithPort(address_, address_.port); }

  // Non-blocking sockets; what they accept has TCP_NODELAY.
  const std::vector<Descriptor>& sockets() const { return sockets_; }

 private:
  explicit ListeningAddress(SocketAddress address) : address_(std::move(address)) {}
  absl::Status ListenOnPath();
  absl::Status ListenOnPort();

  SocketAddress address_;
  std::vector<Descriptor> sockets_;
  ino_t inode_ = 0;  // of the unix socket
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_LISTENING_ADDRESS_H_
