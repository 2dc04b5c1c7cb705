// SIGINT and SIGTERM as a question to ask, for commands that have something to finish first.
#ifndef ATTEND_CLIENT_INTERRUPTION_H_
#define ATTEND_CLIENT_INTERRUPTION_H_

namespace attend::client {

// While one of these lives, a first SIGINT or SIGTERM only makes requested() true; a second one ends the process at
// once. At most one at a time; the constructor also forgets earlier signals. Handlers are put back by the destructor.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // Whether a signal has come. Thread-safe.
  static bool requested();

  // Ends the process as the signal would have (a shell sees 130 for SIGINT and 143 for SIGTERM), so that a script's
  // loop around the command ends too. Returns at once if no signal has come.
  static void EndIfRequested();
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_INTERRUPTION_H_
