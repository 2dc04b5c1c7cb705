// An HTTP/2 client that no gRPC library would be: it sends a part of a message and stops, or goes away in the middle.
#ifndef ATTEND_TESTS_TESTING_HTTP2_SENDER_H_
#define ATTEND_TESTS_TESTING_HTTP2_SENDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attend::testing {

// One connection with one call of POST /attend.v1.AttentionService/Attend. Not thread-safe.
class Http2Sender {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // How the server ended the call.
  struct End {
    std::optional<uint32_t> reset_code;  // of RST_STREAM; absent where it sent trailers
  };

  // Connects to "host:port" and sends the call's headers, `headers` among them.
  static absl::StatusOr<std::unique_ptr<Http2Sender>> Call(const std::string& address, const Headers& headers);

  // Closes the connection, whatever the call's state.
  ~Http2Sender();
  Http2Sender(const Http2Sender&) = delete;
  Http2Sender& operator=(const Http2Sender&) = delete;

  // Sends the five bytes that stand before a message of `bytes` bytes, then bytes of it as fast as flow control lets
  // them, until `count` are sent in all, the call has ended or `timeout` is over. Returns how many of the message are
  // sent by now; call it again to go on.
  int64_t Send(int64_t bytes, int64_t count, absl::Duration timeout, bool compressed = false);
  // Sends these bytes as the whole message, likewise, and half-closes.
  int64_t SendWhole(absl::string_view message, absl::Duration timeout, bool compressed = false);

  // Waits until the server has ended the call, or the connection (CANCELLED). DEADLINE_EXCEEDED after `timeout`.
  absl::StatusOr<End> WaitForEnd(absl::Duration timeout);

 private:
  explicit Http2Sender(int socket) : socket_(socket) {}

  bool SendAll(absl::string_view bytes);
  bool SendFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);
  bool SendData(absl::string_view bytes, bool last, absl::Time deadline);
  // Reads what is there, waiting at most until `deadline` for something. False once the connection is closed.
  bool Receive(absl::Time deadline);
  void TakeFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);

  const int socket_;
  std::string received_;
  int64_t connection_window_ = 65535;
  int64_t stream_window_ = 65535;
  int64_t initial_window_ = 65535;
  bool prefix_sent_ = false;
  int64_t sent_ = 0;
  bool closed_ = false;
  std::optional<End> end_;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_HTTP2_SENDER_H_
