// SIGTERM and SIGINT as events that the main thread waits for; as process 1 too, where unhandled signals are ignored.
#ifndef ATTEND_SERVER_SHUTDOWN_SIGNALS_H_
#define ATTEND_SERVER_SHUTDOWN_SIGNALS_H_

#include <csignal>

#include "absl/time/time.h"

namespace attend::server {

class ShutdownSignals {
 public:
  // Blocks both signals in this thread and in all that it starts from now on: made before any other thread.
  // SIGPIPE is ignored: a peer that hangs up is an error of a write, not the end.
  ShutdownSignals();

  // Waits until a signal comes, true, or `timeout` has passed, false. Each signal is seen once.
  bool Await(absl::Duration timeout);

 private:
  sigset_t signals_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_SHUTDOWN_SIGNALS_H_
