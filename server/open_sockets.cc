#include "server/open_sockets.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace attend::server {

void OpenSockets::Add(int descriptor) { sockets_[descriptor] = FileOf(descriptor); }

size_t OpenSockets::Count() {
  std::erase_if(sockets_, [](const auto& socket) { return FileOf(socket.first) != socket.second; });
  return sockets_.size();
}

// fstatat and not fstat: ThreadSanitizer takes the latter for a use of the descriptor, which its owner may close at the
// same moment. Here that is the question, not a mistake.
OpenSockets::File OpenSockets::FileOf(int descriptor) {
  struct stat status = {};
  if (fstatat(descriptor, "", &status, AT_EMPTY_PATH) != 0) return {};
  return {.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace attend::server
