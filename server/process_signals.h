// SIGTERM, SIGINT and SIGHUP as events that the main thread waits for; as process 1 too, where unhandled signals are
// ignored.
#ifndef ATTEND_SERVER_PROCESS_SIGNALS_H_
#define ATTEND_SERVER_PROCESS_SIGNALS_H_

#include <csignal>
#include <optional>

#include "absl/time/time.h"

namespace attend::server {

enum class ProcessSignal {
  kShutDown,  // SIGTERM, SIGINT
  kReload,    // SIGHUP
};

class ProcessSignals {
 public:
  // Blocks the signals in this thread and in all that it starts from now on: made before any other thread.
  // SIGPIPE is ignored: a peer that hangs up is an error of a write, not the end.
  ProcessSignals();

  // Waits until a signal comes, or `timeout` has passed: nothing. Each signal is seen once.
  std::optional<ProcessSignal> Await(absl::Duration timeout);

 private:
  sigset_t signals_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_PROCESS_SIGNALS_H_
