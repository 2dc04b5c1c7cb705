// Reads HTTP requests from many connections at once and hands each on when it has arrived: a sender that is slow, or
// never ends, holds a descriptor and no thread.
#ifndef ATTEND_SERVER_HTTP_REQUEST_COLLECTOR_H_
#define ATTEND_SERVER_HTTP_REQUEST_COLLECTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/descriptor.h"

namespace attend::server {

// Thread-safe.
class HttpRequestCollector {
 public:
  struct Limits {
    // Connections that wait for the rest of their request. One more, and the one that has waited longest is closed.
    size_t max_waiting = 256;
    // From Add to the end of the request.
    absl::Duration timeout = absl::Seconds(5);
    size_t max_bytes = size_t{16} << 10;
  };

  // Takes over the connection and what has been read from it: a request's line and headers, up to the empty line at
  // least. Called on the collecting thread: must not block.
  using Handler = std::function<void(Descriptor connection, std::string request)>;

  // RESOURCE_EXHAUSTED if there is no descriptor left.
  static absl::StatusOr<std::unique_ptr<HttpRequestCollector>> Create(const Limits& limits, Handler handler);

  // Waits for the handler, if it runs, calls it no more, and closes what waits.
  ~HttpRequestCollector();

  HttpRequestCollector(const HttpRequestCollector&) = delete;
  HttpRequestCollector& operator=(const HttpRequestCollector&) = delete;

  // Reads from `connection`, a non-blocking socket, until its request is there, a limit is passed or its peer is gone.
  // Waits while a quarter of max_waiting have been added and not been looked at yet: in no burst are there more than
  // max_waiting and a half.
  void Add(Descriptor connection);

 private:
  struct Waiting {
    Descriptor connection;
    std::chrono::steady_clock::time_point deadline;
    std::string request;
  };
  using Position = std::list<Waiting>::iterator;

  HttpRequestCollector(const Limits& limits, Handler handler, Descriptor wake);
  void Run();
  void TakeAdded();
  void MakeRoom();
  void AwaitInput();
  void Read(Position position);
  int PollTimeout() const;

  const Limits limits_;
  const Handler handler_;
  const Descriptor wake_;  // readable when there is something in added_, or stopping_
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;
  std::condition_variable taken_;
  std::vector<Descriptor> added_;

  std::list<Waiting> waiting_;  // of the collecting thread; the one that came first is in front
  std::thread thread_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_HTTP_REQUEST_COLLECTOR_H_
