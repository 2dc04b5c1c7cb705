// A TCP connection that says what a test wants it to say, or nothing.
#ifndef ATTEND_TESTS_TESTING_PLAIN_CONNECTION_H_
#define ATTEND_TESTS_TESTING_PLAIN_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attend::testing {

// What an HTTP/2 client says first: the preface and an empty SETTINGS frame. gRPC keeps a connection that has said it.
absl::string_view Http2Greeting();

// A PING frame.
absl::string_view Http2Ping();

// Not thread-safe.
class PlainConnection {
 public:
  // Connects to "host:port" or "[v6]:port". UNAVAILABLE with the reason.
  static absl::StatusOr<std::unique_ptr<PlainConnection>> Connect(const std::string& address);

  ~PlainConnection();
  PlainConnection(const PlainConnection&) = delete;
  PlainConnection& operator=(const PlainConnection&) = delete;

  // False if the peer has closed the connection.
  bool Send(absl::string_view bytes);

  // Reads until the peer closes the connection, or `timeout` is over, or what has been read holds `text`.
  // Returns whether it ended before the time was over.
  bool ReadUntilClosed(absl::Duration timeout) { return Read(timeout, ""); }
  bool ReadUntil(absl::string_view text, absl::Duration timeout) { return Read(timeout, text) && !closed_; }

  // All that has been read.
  const std::string& received() const { return received_; }

 private:
  explicit PlainConnection(int socket) : socket_(socket) {}
  bool Read(absl::Duration timeout, absl::string_view text);

  const int socket_;
  std::string received_;
  bool closed_ = false;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_PLAIN_CONNECTION_H_
