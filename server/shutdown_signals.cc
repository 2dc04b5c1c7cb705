#include "server/shutdown_signals.h"

#include <ctime>

namespace attend::server {

ShutdownSignals::ShutdownSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool ShutdownSignals::Await(absl::Duration timeout) {
  const timespec time = absl::ToTimespec(timeout);
  return sigtimedwait(&signals_, nullptr, &time) > 0;
}

}  // namespace attend::server
