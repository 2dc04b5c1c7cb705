// Watches what each connection costs, and aborts those that cost what no client that keeps to HTTP/2 can cost.
//
// gRPC 1.51 has two bounds too few. A stream that is reset no longer counts against the limit of streams, but its call
// is still here: whoever opens and resets streams as fast as it can send has as many calls as memory holds, with
// everybody else's work behind them (CVE-2023-44487). And headers that never end are kept, and copied with every frame,
// without bound (CVE-2023-33953). Neither can be mended from outside, but both can be seen:
//   * a connection has more calls than it may have streams, and as many again that are ending;
//   * so many of its calls were reset before their message had come: calls of other connections waited up to four
//   seconds
//     behind 40,000 of them;
//   * it has sent more bytes than its calls explain: what the kernel has received, less the messages that have arrived,
//     less, for each call, its metadata and the window in which it may send unasked.
// A connection is known by the address of its peer. Those of unix sockets have none and are not watched.
#ifndef ATTEND_SERVER_CONNECTION_WATCH_H_
#define ATTEND_SERVER_CONNECTION_WATCH_H_

#include <sys/socket.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/time/time.h"
#include "server/open_sockets.h"

namespace attend::server {

// Thread-safe.
class ConnectionWatch {
 public:
  struct Limits {
    int64_t max_calls = 0;         // of a connection at a time
    int64_t bytes_per_call = 0;    // besides messages that are read
    int64_t bytes_besides = 0;     // of a connection: handshake, settings
    int64_t bytes_per_second = 0;  // of a connection: pings
  };

  // Looks at all connections every `interval`, on a thread of its own; never, if that is infinite.
  ConnectionWatch(const Limits& limits, absl::Duration interval);
  ~ConnectionWatch();

  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // A connection that has just been accepted and that somebody else will close.
  void Add(int descriptor);

  // A call over the connection `peer`, as gRPC names it, has begun, or ended; of one that takes no time, both.
  void BeginCall(const std::string& peer);
  void EndCall(const std::string& peer, int64_t response_bytes = 0);
  void CountCall(const std::string& peer);
  // A call was given up by its caller before its message had arrived. As many as `max_calls` may be at once, and a
  // tenth of that in every second.
  void CountReset(const std::string& peer);

  // Up to so many bytes of a message are being read, and then: so many of them were there (all, if nobody knows).
  void BeginMessage(const std::string& peer, int64_t expected);
  void EndMessage(const std::string& peer, int64_t expected, int64_t arrived);

  // Looks at all connections, `elapsed` after the last look.
  void Inspect(absl::Duration elapsed);

  int64_t aborted() const;  // since the start

  // How gRPC names the peer at this address: "ipv4:127.0.0.1:43210", "ipv6:%5B::1%5D:43210"; empty for others.
  static std::string PeerName(const sockaddr_storage& address);

 private:
  struct Connection {
    int descriptor = -1;
    OpenSockets::File file;
    int64_t calls = 0;      // now
    double resets = 0;      // less what time has forgiven
    int64_t expected = 0;   // of messages that are being read now
    int64_t explained = 0;  // bytes that ended calls and messages explain; never more than were received
    bool aborted = false;
  };

  void Run(absl::Duration interval);
  bool Exceeds(Connection& connection, absl::Duration elapsed) const;
  void Abort(Connection& connection);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable ending_;
  bool ended_ = false;
  std::unordered_map<std::string, Connection> connections_;
  int64_t aborted_ = 0;
  std::thread thread_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_CONNECTION_WATCH_H_
