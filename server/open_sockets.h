// Counts sockets that somebody else owns and closes without saying so: gRPC tells nobody when a connection has ended.
//
// A socket is known by its descriptor's number and by the identity of its file. The number alone would not do: it goes
// to the next file that is opened, whatever that is.
#ifndef ATTEND_SERVER_OPEN_SOCKETS_H_
#define ATTEND_SERVER_OPEN_SOCKETS_H_

#include <sys/types.h>

#include <cstddef>
#include <unordered_map>

namespace attend::server {

// Not thread-safe.
class OpenSockets {
 public:
  // What tells a file from all others that are open.
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const File&) const = default;
  };

  // The file behind a descriptor; all zero, which no socket is, if it is closed.
  static File FileOf(int descriptor);

  // From now on `descriptor` is counted until it is closed. It is open now.
  void Add(int descriptor);

  // How many are open: one system call for each that was open at the last Count or has been added since.
  size_t Count();

  // At least as many as are open, without looking.
  size_t upper_bound() const { return sockets_.size(); }

 private:
  std::unordered_map<int, File> sockets_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_OPEN_SOCKETS_H_
