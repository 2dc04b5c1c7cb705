#include "server/connection_watch.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace attend::server {
namespace {

// What TLS, and the frames of HTTP/2, add to what they carry: a sixteenth and more is never reached.
int64_t WithFraming(int64_t bytes) { return bytes + bytes / 16; }

// What a receiver sends while it takes a response: 26 bytes for each part of the window that it has emptied, 4 KiB or
// more.
int64_t WindowUpdates(int64_t response_bytes) { return response_bytes / 128; }

// What the kernel has received for it since it was connected.
int64_t ReceivedBytes(int descriptor) {
  tcp_info state = {};
  socklen_t length = sizeof(state);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &state, &length) != 0) return 0;
  return static_cast<int64_t>(state.tcpi_bytes_received);
}

}  // namespace

ConnectionWatch::ConnectionWatch(const Limits& limits, absl::Duration interval) : limits_(limits) {
  if (interval != absl::InfiniteDuration()) thread_ = std::thread([this, interval] { Run(interval); });
}

ConnectionWatch::~ConnectionWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ConnectionWatch::Run(absl::Duration interval) {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (ending_.wait_for(lock, absl::ToChronoNanoseconds(interval), [this] { return ended_; })) return;
    }
    Inspect(interval);
  }
}

void ConnectionWatch::Add(int descriptor) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
  const std::string peer = PeerName(address);
  if (peer.empty()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  connections_[peer] = {.descriptor = descriptor, .file = OpenSockets::FileOf(descriptor)};
}

void ConnectionWatch::BeginCall(const std::string& peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = connections_.find(peer);
  if (found != connections_.end() && ++found->second.calls > limits_.max_calls) Abort(found->second);
}

// The calls of a connection may outlive it, and then be taken for those of another one from the same port: therefore
// nothing is let fall below zero.
void ConnectionWatch::EndCall(const std::string& peer, int64_t response_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second.calls = std::max<int64_t>(0, found->second.calls - 1);
  found->second.explained += limits_.bytes_per_call + WindowUpdates(response_bytes);
}

void ConnectionWatch::CountCall(const std::string& peer) {
  BeginCall(peer);
  EndCall(peer);
}

void ConnectionWatch::CountReset(const std::string& peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = connections_.find(peer);
  if (found != connections_.end() && ++found->second.resets > static_cast<double>(limits_.max_calls)) {
    Abort(found->second);
  }
}

void ConnectionWatch::BeginMessage(const std::string& peer, int64_t expected) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = connections_.find(peer);
  if (found != connections_.end()) found->second.expected += expected;
}

void ConnectionWatch::EndMessage(const std::string& peer, int64_t expected, int64_t arrived) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second.expected = std::max<int64_t>(0, found->second.expected - expected);
  found->second.explained += arrived;
}

void ConnectionWatch::Inspect(absl::Duration elapsed) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(connections_,
                [](const auto& entry) { return OpenSockets::FileOf(entry.second.descriptor) != entry.second.file; });
  const double forgiven = static_cast<double>(limits_.max_calls) * absl::ToDoubleSeconds(elapsed) / 10;
  for (auto& [peer, connection] : connections_) {
    connection.resets = std::max(0.0, connection.resets - forgiven);
    if (Exceeds(connection, elapsed)) Abort(connection);
  }
}

bool ConnectionWatch::Exceeds(Connection& connection, absl::Duration elapsed) const {
  const int64_t received = ReceivedBytes(connection.descriptor);
  connection.explained +=
      static_cast<int64_t>(static_cast<double>(limits_.bytes_per_second) * absl::ToDoubleSeconds(elapsed));
  // What a call might have sent and did not is no credit for what comes later.
  connection.explained = std::min(connection.explained, received);
  const int64_t now = connection.expected + connection.calls * limits_.bytes_per_call;
  return received - limits_.bytes_besides > WithFraming(connection.explained + now);
}

// Connecting a TCP socket to nothing resets it and drops what it has received but nobody has read, which closing it for
// reading would leave to be parsed. Whoever owns it sees an error and closes it. Between the look and the call the
// descriptor could become another connection's: that one would have to try again.
void ConnectionWatch::Abort(Connection& connection) {
  if (connection.aborted || OpenSockets::FileOf(connection.descriptor) != connection.file) return;
  connection.aborted = true;
  ++aborted_;
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  [[maybe_unused]] const int ignored = connect(connection.descriptor, &nobody, sizeof(nobody));
}

int64_t ConnectionWatch::aborted() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return aborted_;
}

std::string ConnectionWatch::PeerName(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const auto print = [&text](int family, const void* host) {
    return inet_ntop(family, host, text.data(), text.size()) == nullptr ? "" : text.data();
  };
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return absl::StrCat("ipv4:", print(AF_INET, &four.sin_addr), ":", ntohs(four.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    return absl::StrCat("ipv4:", print(AF_INET, &six.sin6_addr.s6_addr[12]), ":", ntohs(six.sin6_port));
  }
  return absl::StrCat("ipv6:%5B", print(AF_INET6, &six.sin6_addr), "%5D:", ntohs(six.sin6_port));
}

}  // namespace attend::server
