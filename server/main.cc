// attend-server: reads its settings, serves until SIGTERM or SIGINT, drains, and ends with 0.
// SIGHUP: reads certificates and tokens again. Exit code 2: a bad setting. 1: an environment that refuses (a port in
// use, a certificate that has expired, a processor too old).
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpc/grpc.h"
#include "server/command_line.h"
#include "server/descriptor_budget.h"
#include "server/log.h"
#include "server/machine_limits.h"
#include "server/process_signals.h"
#include "server/server.h"
#include "server/settings_table.h"

namespace attend::server {
namespace {

constexpr int kBadSetting = 2;
constexpr int kEnvironmentRefuses = 1;

constexpr absl::Duration kHousekeepingInterval = absl::Seconds(1);
// While draining: how soon a second signal, or the last call's end, is noticed.
constexpr absl::Duration kDrainInterval = absl::Milliseconds(20);
// How long cancelled calls may take to end: a tile each, and what gRPC needs.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

int Fail(const absl::Status& status, int exit_code) {
  std::cerr << "attend-server: " << status.message() << '\n';
  return exit_code;
}

std::optional<std::string> ReadVariable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Waits for the signal to shut down and meanwhile does what others ask for. False if it has not come after `timeout`.
bool AwaitShutDown(Server& server, ProcessSignals& signals, absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  do {
    const std::optional<ProcessSignal> signal = signals.Await(std::max(absl::ZeroDuration(), end - absl::Now()));
    if (signal == ProcessSignal::kShutDown) return true;
    if (signal == ProcessSignal::kReload) server.Reload();
  } while (absl::Now() < end);
  return false;
}

// Serves for `time`, or for ever. True if a signal ended it.
bool Serve(Server& server, ProcessSignals& signals, absl::Duration time) {
  const absl::Time end = absl::Now() + time;
  while (absl::Now() < end) {
    if (AwaitShutDown(server, signals, std::min(kHousekeepingInterval, end - absl::Now()))) return true;
    server.Housekeep();
  }
  return false;
}

// After the first signal: serves for drain_delay, then lets calls in flight finish. A second signal ends it at once.
void Drain(const Settings& settings, Server& server, ProcessSignals& signals, Log& log) {
  log.Write(LogLevel::kInfo, "draining");
  server.BeginDrain();
  if (Serve(server, signals, settings.drain_delay)) return log.Write(LogLevel::kWarning, "second signal, ending");
  server.StopAccepting();
  const absl::Time end = absl::Now() + settings.drain_timeout;
  while (!server.AwaitCalls(kDrainInterval)) {
    if (absl::Now() >= end)
      return log.Write(LogLevel::kWarning, "drain_timeout has passed, ending with calls in flight");
    if (AwaitShutDown(server, signals, absl::ZeroDuration())) {
      return log.Write(LogLevel::kWarning, "second signal, ending");
    }
  }
}

// Ends the process if its own end takes longer than it may: a supervisor would kill it, and say so.
class EndGuard {
 public:
  explicit EndGuard(absl::Duration timeout) : thread_([this, timeout] { Watch(timeout); }) {}
  ~EndGuard() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void Watch(absl::Duration timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool in_time = changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] { return ended_; });
    if (!in_time) std::_Exit(EXIT_SUCCESS);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

int Run(const Settings& settings, ProcessSignals& signals) {
  std::optional<Log> log(std::in_place, settings.log_format, settings.log_level);
  log->CaptureGrpcLines(LogLevel::kError);  // before gRPC can say anything
  // Held until the process ends: the last to let go of gRPC would wait for all of its threads, and one that polls in
  // epoll_wait at that moment is woken by nobody for up to ten seconds. All that is ours has ended before.
  grpc_init();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(settings, *log);
  if (!server.ok()) {
    log.reset();
    return Fail(server.status(), kEnvironmentRefuses);
  }
  Serve(**server, signals, absl::InfiniteDuration());
  Drain(settings, **server, signals, *log);
  const EndGuard guard(kEndTimeout);
  server->reset();
  log->Write(LogLevel::kInfo, "stopped");
  log.reset();
  return EXIT_SUCCESS;
}

int Main(const std::vector<std::string>& arguments) {
  const MachineLimits limits = ReadMachineLimits(AffinityCount());
  absl::StatusOr<CommandLine> command_line = ParseCommandLine(arguments, &ReadVariable, limits);
  if (!command_line.ok()) return Fail(command_line.status(), kBadSetting);
  if (!command_line->text.empty()) {
    std::cout << command_line->text;
    return EXIT_SUCCESS;
  }
  // Debian builds Abseil with the search for lock cycles in it, which takes 4 % of a small call: each of gRPC's locks
  // is entered into a graph, under one lock for all.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  ProcessSignals signals;
  RaiseDescriptorLimit();
  return Run(command_line->settings, signals);
}

}  // namespace
}  // namespace attend::server

int main(int argc, char** argv) { return attend::server::Main(std::vector<std::string>(argv + 1, argv + argc)); }
