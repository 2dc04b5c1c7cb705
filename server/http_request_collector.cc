#include "server/http_request_collector.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::server {
namespace {

constexpr char kEndOfHead[] = "\r\n\r\n";

using SteadyClock = std::chrono::steady_clock;

}  // namespace

absl::StatusOr<std::unique_ptr<HttpRequestCollector>> HttpRequestCollector::Create(const Limits& limits,
                                                                                   Handler handler) {
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("requests cannot be read: ", std::strerror(errno)));
  }
  return std::unique_ptr<HttpRequestCollector>(new HttpRequestCollector(limits, std::move(handler), std::move(wake)));
}

HttpRequestCollector::HttpRequestCollector(const Limits& limits, Handler handler, Descriptor wake)
    : limits_(limits), handler_(std::move(handler)), wake_(std::move(wake)) {
  thread_ = std::thread([this] { Run(); });
}

HttpRequestCollector::~HttpRequestCollector() {
  stopping_ = true;
  eventfd_write(wake_.number(), 1);
  thread_.join();
}

void HttpRequestCollector::Add(Descriptor connection) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    taken_.wait(lock, [this] { return added_.size() < std::max<size_t>(limits_.max_waiting / 4, 1); });
    added_.push_back(std::move(connection));
  }
  eventfd_write(wake_.number(), 1);
}

void HttpRequestCollector::Run() {
  while (!stopping_) {
    TakeAdded();
    AwaitInput();
    const SteadyClock::time_point now = SteadyClock::now();
    while (!waiting_.empty() && waiting_.front().deadline <= now) waiting_.pop_front();
  }
}

void HttpRequestCollector::TakeAdded() {
  std::vector<Descriptor> added;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    added.swap(added_);
  }
  taken_.notify_all();
  const SteadyClock::time_point deadline = SteadyClock::now() + absl::ToChronoNanoseconds(limits_.timeout);
  for (Descriptor& connection : added) {
    if (waiting_.size() >= limits_.max_waiting) MakeRoom();
    waiting_.push_back({.connection = std::move(connection), .deadline = deadline, .request = {}});
    Read(std::prev(waiting_.end()));
  }
}

// In a burst, what makes room may have sent everything in the meantime.
void HttpRequestCollector::MakeRoom() {
  const size_t before = waiting_.size();
  Read(waiting_.begin());
  if (waiting_.size() == before) waiting_.pop_front();
}

void HttpRequestCollector::AwaitInput() {
  std::vector<pollfd> entries = {{.fd = wake_.number(), .events = POLLIN, .revents = 0}};
  std::vector<Position> positions;
  for (auto position = waiting_.begin(); position != waiting_.end(); ++position) {
    entries.push_back({.fd = position->connection.number(), .events = POLLIN, .revents = 0});
    positions.push_back(position);
  }
  if (poll(entries.data(), entries.size(), PollTimeout()) <= 0) return;
  eventfd_t ignored = 0;
  if (entries[0].revents != 0) eventfd_read(wake_.number(), &ignored);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (entries[i + 1].revents != 0) Read(positions[i]);
  }
}

void HttpRequestCollector::Read(Position position) {
  std::string& request = position->request;
  std::array<char, 4096> bytes;
  const size_t room = std::min(bytes.size(), limits_.max_bytes - request.size());
  const ssize_t count = recv(position->connection.number(), bytes.data(), room, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {  // gone
    waiting_.erase(position);
    return;
  }
  // The end may lie across two pieces.
  const size_t searched = std::max<size_t>(request.size(), 3) - 3;
  request.append(bytes.data(), static_cast<size_t>(count));
  const bool complete = request.find(kEndOfHead, searched) != std::string::npos;
  if (!complete && request.size() < limits_.max_bytes) return;
  if (complete) handler_(std::move(position->connection), std::move(request));
  waiting_.erase(position);
}

int HttpRequestCollector::PollTimeout() const {
  if (waiting_.empty()) return -1;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(waiting_.front().deadline - SteadyClock::now());
  return static_cast<int>(std::max<int64_t>(left.count() + 1, 0));
}

}  // namespace attend::server
