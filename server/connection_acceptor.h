// Takes connections from the kernel and hands them to whoever serves them, for as long as it lives.
//
// gRPC 1.51's own listener ends for good when accepting fails once, as it does where a process has run out of
// descriptors (CVE-2023-4785), and it has no bound on connections. Here
//   * a connection beyond `max_connections` is closed at once, so that its client looks elsewhere, and counted. Where
//   one
//     has ended a moment ago the next may still be refused: counting takes time (some milliseconds for a thousand);
//   * so is one whose descriptor is beyond those that connections may have: the kernel gives the lowest free number, so
//   a
//     high one says that the process runs short of them, whoever has the others;
//   * if accepting fails, whatever the reason, it pauses for some milliseconds and goes on. What waits meanwhile waits
//     in the kernel.
#ifndef ATTEND_SERVER_CONNECTION_ACCEPTOR_H_
#define ATTEND_SERVER_CONNECTION_ACCEPTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/descriptor.h"
#include "server/open_sockets.h"

namespace attend::server {

// Thread-safe.
class ConnectionAcceptor {
 public:
  struct Limits {
    int64_t max_connections = std::numeric_limits<int64_t>::max();
    // The least descriptor number that no connection may have.
    int descriptor_end = std::numeric_limits<int>::max();
  };

  // Since the start.
  struct Counts {
    int64_t accepted = 0;                     // taken from the kernel, refused ones among them
    int64_t refused_for_max_connections = 0;  // closed at once
    int64_t refused_for_descriptors = 0;      // closed at once
    int64_t pauses = 0;                       // times that accepting failed
  };

  // Takes over a connected, non-blocking socket that came from the socket `listener`. Called on the accepting thread:
  // others wait meanwhile.
  using Handler = std::function<void(Descriptor connection, int listener)>;

  // Accepts from the listening, non-blocking sockets `listeners` from the return on; they outlive it.
  // RESOURCE_EXHAUSTED if there is no descriptor left even now.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Create(std::vector<int> listeners, const Limits& limits,
                                                                    Handler handler);

  // Waits for the handler, if it runs, and calls it no more. What has been handed over is not touched.
  ~ConnectionAcceptor();

  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Connections that have been handed over and not been closed since. Takes a system call for each.
  int64_t open_connections();

  Counts counts() const;

  // Waits until more than `count` connections have been accepted. DEADLINE_EXCEEDED after `timeout`.
  absl::Status AwaitAccepted(int64_t count, absl::Duration timeout);

 private:
  enum class Verdict { kTake, kMaxConnections, kDescriptors };

  ConnectionAcceptor(std::vector<int> listeners, const Limits& limits, Handler handler, Descriptor wake);
  void Run();
  void AcceptFrom(int listener);
  void Take(Descriptor connection, int listener);
  Verdict Judge(int connection);
  bool IsFull();
  void Pause();

  const std::vector<int> listeners_;
  const Limits limits_;
  const Handler handler_;
  const Descriptor wake_;  // readable once stopping_
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;
  std::condition_variable accepted_;
  OpenSockets open_;
  std::chrono::steady_clock::time_point next_look_;  // into open_, which is full
  Counts counts_;

  std::thread thread_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_CONNECTION_ACCEPTOR_H_
