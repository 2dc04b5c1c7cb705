// Just as much of RFC 9113 (HTTP/2) and RFC 7541 (HPACK, literals only) as one call takes.
#include "tests/testing/http2_sender.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace attend::testing {
namespace {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
};
constexpr uint8_t kAck = 1;
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;
constexpr uint16_t kInitialWindowSize = 4;
constexpr uint32_t kStream = 1;
constexpr size_t kFrameHeaderBytes = 9;
constexpr int64_t kLargestPayload = 16384;

uint32_t ReadNumber(absl::string_view bytes, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

std::string WriteNumber(uint32_t number, int count) {
  std::string bytes;
  for (int i = count - 1; i >= 0; --i) bytes.push_back(static_cast<char>(uint64_t{number} >> (8 * i)));
  return bytes;
}

// A header as a literal that is not indexed; texts under 127 bytes.
std::string Literal(absl::string_view name, absl::string_view value) {
  std::string bytes(1, '\0');
  bytes.push_back(static_cast<char>(name.size()));
  bytes.append(name.data(), name.size());
  bytes.push_back(static_cast<char>(value.size()));
  bytes.append(value.data(), value.size());
  return bytes;
}

// What stands before a message in its stream: whether it is compressed, and its size.
std::string Prefix(int64_t message_bytes, bool compressed) {
  std::string prefix = WriteNumber(static_cast<uint32_t>(message_bytes), 5);
  prefix[0] = compressed ? 1 : 0;
  return prefix;
}

absl::StatusOr<int> Connect(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  sockaddr_in to = {};
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &port) ||
      inet_pton(AF_INET, parts[0].c_str(), &to.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(address, " is no IPv4 address and port"));
  }
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return absl::UnavailableError(strerror(errno));
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    close(descriptor);
    return absl::UnavailableError(absl::StrCat("cannot connect to ", address, ": ", strerror(errno)));
  }
  return descriptor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Http2Sender>> Http2Sender::Call(const std::string& address, const Headers& headers) {
  const absl::StatusOr<int> descriptor = Connect(address);
  if (!descriptor.ok()) return descriptor.status();
  std::unique_ptr<Http2Sender> sender(new Http2Sender(*descriptor));
  std::string block = absl::StrCat(
      Literal(":method", "POST"), Literal(":scheme", "http"), Literal(":path", "/attend.v1.AttentionService/Attend"),
      Literal(":authority", "localhost"), Literal("te", "trailers"), Literal("content-type", "application/grpc"));
  for (const auto& [name, value] : headers) block += Literal(name, value);
  if (!sender->SendAll("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") || !sender->SendFrame(kSettings, 0, 0, "") ||
      !sender->SendFrame(kHeaders, kEndHeaders, kStream, block)) {
    return absl::UnavailableError(absl::StrCat(address, " closed the connection"));
  }
  return sender;
}

Http2Sender::~Http2Sender() { close(socket_); }

bool Http2Sender::SendAll(absl::string_view bytes) {
  while (!bytes.empty() && !closed_) {
    const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      closed_ = true;
    }
  }
  return !closed_;
}

bool Http2Sender::SendFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  std::string frame = WriteNumber(static_cast<uint32_t>(payload.size()), 3);
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  frame += WriteNumber(stream, 4);
  frame.append(payload.data(), payload.size());
  return SendAll(frame);
}

bool Http2Sender::SendData(absl::string_view bytes, bool last, absl::Time deadline) {
  do {
    const int64_t room = std::min({stream_window_, connection_window_, kLargestPayload});
    if (end_.has_value() || closed_) return false;
    if (room <= 0 && !bytes.empty()) {
      if (absl::Now() >= deadline || !Receive(deadline)) return false;
      continue;
    }
    const auto size = static_cast<size_t>(std::min<int64_t>(std::max<int64_t>(room, 0), bytes.size()));
    const bool ends = last && size == bytes.size();
    if (!SendFrame(kData, ends ? kEndStream : 0, kStream, bytes.substr(0, size))) return false;
    bytes.remove_prefix(size);
    stream_window_ -= static_cast<int64_t>(size);
    connection_window_ -= static_cast<int64_t>(size);
  } while (!bytes.empty());
  return true;
}

int64_t Http2Sender::Send(int64_t bytes, int64_t count, absl::Duration timeout, bool compressed) {
  const absl::Time deadline = absl::Now() + timeout;
  if (!prefix_sent_) {
    if (!SendData(Prefix(bytes, compressed), false, deadline)) return 0;
    prefix_sent_ = true;
  }
  const std::string zeros(kLargestPayload, '\0');
  while (sent_ < count) {
    const int64_t room = std::min({stream_window_, connection_window_, kLargestPayload, count - sent_});
    if (room <= 0) {
      if (end_.has_value() || absl::Now() >= deadline || !Receive(deadline)) break;
      continue;
    }
    if (!SendData(absl::string_view(zeros).substr(0, static_cast<size_t>(room)), false, deadline)) break;
    sent_ += room;
    Receive(absl::InfinitePast());
  }
  return sent_;
}

int64_t Http2Sender::SendWhole(absl::string_view message, absl::Duration timeout, bool compressed) {
  const std::string framed = absl::StrCat(Prefix(static_cast<int64_t>(message.size()), compressed), message);
  return SendData(framed, true, absl::Now() + timeout) ? static_cast<int64_t>(message.size()) : 0;
}

bool Http2Sender::Receive(absl::Time deadline) {
  const int64_t wait = std::clamp<int64_t>(absl::ToInt64Milliseconds(deadline - absl::Now()), 0, 1000);
  pollfd waiting = {.fd = socket_, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, static_cast<int>(wait)) <= 0) return !closed_;
  char buffer[65536];
  const ssize_t count = recv(socket_, buffer, sizeof(buffer), 0);
  if (count <= 0) {
    closed_ = true;
    return false;
  }
  received_.append(buffer, static_cast<size_t>(count));
  while (received_.size() >= kFrameHeaderBytes) {
    const absl::string_view all = received_;
    const size_t size = ReadNumber(all, 3);
    if (all.size() < kFrameHeaderBytes + size) break;
    const std::string payload(all.substr(kFrameHeaderBytes, size));
    TakeFrame(static_cast<uint8_t>(all[3]), static_cast<uint8_t>(all[4]), ReadNumber(all.substr(5), 4), payload);
    received_.erase(0, kFrameHeaderBytes + size);
  }
  return !closed_;
}

void Http2Sender::TakeFrame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  switch (type) {
    case kSettings:
      if ((flags & kAck) != 0) return;
      for (size_t i = 0; i + 6 <= payload.size(); i += 6) {
        if (ReadNumber(payload.substr(i), 2) != kInitialWindowSize) continue;
        const int64_t window = ReadNumber(payload.substr(i + 2), 4);
        stream_window_ += window - initial_window_;
        initial_window_ = window;
      }
      SendFrame(kSettings, kAck, 0, "");
      return;
    case kPing:
      if ((flags & kAck) == 0) SendFrame(kPing, kAck, 0, payload);
      return;
    case kWindowUpdate:
      (stream == 0 ? connection_window_ : stream_window_) += ReadNumber(payload, 4);
      return;
    case kResetStream:
      // One that follows trailers only says that the rest of the message is not wanted.
      if (!end_.has_value()) end_ = End{.reset_code = ReadNumber(payload, 4)};
      return;
    case kHeaders:
    case kData:
      if ((flags & kEndStream) != 0 && !end_.has_value()) end_ = End{};
      return;
    case kGoAway:
    default:
      return;
  }
}

absl::StatusOr<Http2Sender::End> Http2Sender::WaitForEnd(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!end_.has_value()) {
    if (absl::Now() >= deadline) return absl::DeadlineExceededError("the server has not ended the call");
    if (!Receive(deadline) && !end_.has_value()) return absl::CancelledError("the server closed the connection");
  }
  return *end_;
}

}  // namespace attend::testing
