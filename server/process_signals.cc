#include "server/process_signals.h"

#include <ctime>

namespace attend::server {

ProcessSignals::ProcessSignals() {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

std::optional<ProcessSignal> ProcessSignals::Await(absl::Duration timeout) {
  const timespec time = absl::ToTimespec(timeout);
  const int signal = sigtimedwait(&signals_, nullptr, &time);
  if (signal <= 0) return std::nullopt;
  return signal == SIGHUP ? ProcessSignal::kReload : ProcessSignal::kShutDown;
}

}  // namespace attend::server
