#include "server/connection_acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::server {
namespace {

// How long accepting rests after it has failed: short for a client that waits, long for a processor.
constexpr int kPauseMilliseconds = 20;
// How many are taken from one address before the others have their turn.
constexpr int kTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Create(std::vector<int> listeners,
                                                                               const Limits& limits, Handler handler) {
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("connections cannot be accepted: ", std::strerror(errno)));
  }
  return std::unique_ptr<ConnectionAcceptor>(
      new ConnectionAcceptor(std::move(listeners), limits, std::move(handler), std::move(wake)));
}

ConnectionAcceptor::ConnectionAcceptor(std::vector<int> listeners, const Limits& limits, Handler handler,
                                       Descriptor wake)
    : listeners_(std::move(listeners)), limits_(limits), handler_(std::move(handler)), wake_(std::move(wake)) {
  thread_ = std::thread([this] { Run(); });
}

ConnectionAcceptor::~ConnectionAcceptor() {
  stopping_ = true;
  eventfd_write(wake_.number(), 1);
  thread_.join();
}

int64_t ConnectionAcceptor::open_connections() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(open_.Count());
}

ConnectionAcceptor::Counts ConnectionAcceptor::counts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

absl::Status ConnectionAcceptor::AwaitAccepted(int64_t count, absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool in_time =
      accepted_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [&] { return counts_.accepted > count; });
  return in_time ? absl::OkStatus() : absl::DeadlineExceededError("connections are not accepted in time");
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> entries;
  for (const int listener : listeners_) entries.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  entries.push_back({.fd = wake_.number(), .events = POLLIN, .revents = 0});
  while (!stopping_) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) Pause();
    for (size_t i = 0; i < listeners_.size() && !stopping_; ++i) {
      if (entries[i].revents != 0) AcceptFrom(listeners_[i]);
    }
  }
}

void ConnectionAcceptor::AcceptFrom(int listener) {
  for (int i = 0; i < kTurn && !stopping_; ++i) {
    Descriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.valid()) {
      Take(std::move(connection), listener);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {  // the two that say nothing about the next one
      return Pause();
    }
  }
}

void ConnectionAcceptor::Take(Descriptor connection, int listener) {
  Verdict verdict = Verdict::kTake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    verdict = Judge(connection.number());
    ++counts_.accepted;
    counts_.refused_for_max_connections += verdict == Verdict::kMaxConnections ? 1 : 0;
    counts_.refused_for_descriptors += verdict == Verdict::kDescriptors ? 1 : 0;
    if (verdict == Verdict::kTake) open_.Add(connection.number());
  }
  accepted_.notify_all();
  if (verdict == Verdict::kTake) handler_(std::move(connection), listener);
}

ConnectionAcceptor::Verdict ConnectionAcceptor::Judge(int connection) {
  if (connection >= limits_.descriptor_end) return Verdict::kDescriptors;
  return IsFull() ? Verdict::kMaxConnections : Verdict::kTake;
}

// Every connection is looked at only where that matters, and, while it shows that all are open, for a tenth of the time
// at most: refusing must cost little, however many are refused.
bool ConnectionAcceptor::IsFull() {
  using Clock = std::chrono::steady_clock;
  const auto full = [this](size_t count) { return static_cast<int64_t>(count) >= limits_.max_connections; };
  if (!full(open_.upper_bound())) return false;
  const Clock::time_point begin = Clock::now();
  if (begin < next_look_) return true;
  if (!full(open_.Count())) return false;
  next_look_ = begin + 10 * (Clock::now() - begin);
  return true;
}

void ConnectionAcceptor::Pause() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++counts_.pauses;
  }
  pollfd entry{.fd = wake_.number(), .events = POLLIN, .revents = 0};
  poll(&entry, 1, kPauseMilliseconds);
}

}  // namespace attend::server
