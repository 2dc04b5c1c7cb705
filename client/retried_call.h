// One call as its caller sees it: attempts at a unary call until one succeeds, the deadline is near, or it is
// cancelled.
#ifndef ATTEND_CLIENT_RETRIED_CALL_H_
#define ATTEND_CLIENT_RETRIED_CALL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/attend_client.h"
#include "client/retry_policy.h"
#include "client/stub.h"
#include "client/timers.h"

namespace attend::client {

// What every call of a client shares. Calls hold it by shared pointers until their last line, which is how a client
// that is being destroyed knows that they are gone.
struct CallEnvironment {
  std::unique_ptr<Stub> stub;
  Timers* timers;  // outlives the calls
  RetryPolicy policy;
  std::string target;  // for messages
  // Likewise: why a server may close connections that it has just accepted, as far as the client's options tell.
  std::string closing_cause = {};
};

// How a call ended. `last.status` is final: see Client for its codes.
struct CallOutcome {
  AttemptOutcome last = {};
  int attempts = 0;
  absl::Duration duration = absl::ZeroDuration();
};

// Thread-safe. Kept alive by the attempt or the alarm that is in progress.
class RetriedCall : public std::enable_shared_from_this<RetriedCall> {
 public:
  // `attempt` without its timeout, which is what `options` leaves at the time.
  RetriedCall(std::shared_ptr<const CallEnvironment> environment, CallAttempt attempt, const CallOptions& options);

  // Called once. `done` is called exactly once, on a thread of the stub's or the timers', never on this one.
  void Start(std::function<void(CallOutcome)> done);

  // Ends the call soon with CANCELLED; nothing if it is over.
  void Cancel();

 private:
  void StartAttempt();
  void FinishAttempt(AttemptOutcome outcome);
  // Sets what Cancel stops: the attempt or the alarm of number `step`, unless that is over already.
  void SetStop(int step, std::function<void()> stop);
  int NextStep();
  bool cancelled() const;
  absl::Duration TimeLeft() const { return deadline_ - environment_->timers->Now(); }
  // The delay before the next attempt; nothing if there must be none.
  std::optional<absl::Duration> RetryDelay(const AttemptOutcome& outcome) const;
  // What the caller is told: the server's own words, or where it was that nothing better was heard from.
  absl::Status FinalStatus(const AttemptOutcome& outcome) const;
  void Finish(AttemptOutcome outcome);

  const std::shared_ptr<const CallEnvironment> environment_;  // shared: see CallEnvironment
  CallAttempt attempt_;
  const CallOptions options_;
  std::function<void(CallOutcome)> done_;
  absl::Time start_;
  absl::Time deadline_;
  int attempts_ = 0;              // touched by one step at a time
  absl::Status earlier_failure_;  // likewise: why there was a retry

  mutable std::mutex mutex_;
  bool cancelled_ = false;
  int step_ = 0;                // counts attempts and waits between them
  std::function<void()> stop_;  // ends step number step_
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_RETRIED_CALL_H_
