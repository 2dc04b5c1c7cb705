// A call is a chain of steps, attempt, wait, attempt, ..., each started by the end of the one before, so members that
// only steps touch need no lock. Cancel comes from outside: it may arrive while a step is being started, when there is
// nothing to stop yet. Therefore steps are numbered: SetStop keeps the function that stops a step only if that step is
// still the last one, and calls it at once if Cancel came first.
#include "client/retried_call.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

// gRPC counts deadlines in whole milliseconds: its own may come this much before ours.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(5);

// gRPC says at length what could not be reached; the last cause is what helps.
std::string ConnectionReason(const std::string& message) {
  constexpr absl::string_view kLastError = "last error: ";
  constexpr absl::string_view kFailed = "Failed to connect to remote host: ";
  absl::string_view reason = message;
  if (const size_t found = reason.find(kLastError); found != reason.npos)
    reason.remove_prefix(found + kLastError.size());
  if (const size_t found = reason.find(kFailed); found != reason.npos) reason.remove_prefix(found + kFailed.size());
  return std::string(reason);
}

}  // namespace

RetriedCall::RetriedCall(std::shared_ptr<const CallEnvironment> environment, CallAttempt attempt, bool fail_fast)
    : environment_(std::move(environment)), attempt_(std::move(attempt)), fail_fast_(fail_fast) {}

void RetriedCall::Start(std::function<void(CallOutcome)> done) {
  done_ = std::move(done);
  start_ = environment_->timers->Now();
  deadline_ = start_ + attempt_.timeout;
  StartAttempt();
}

void RetriedCall::StartAttempt() {
  ++attempts_;
  const int step = NextStep();
  attempt_.timeout = TimeLeft();
  SetStop(step, environment_->stub->Start(attempt_, [self = shared_from_this()](AttemptOutcome outcome) {
    self->FinishAttempt(std::move(outcome));
  }));
}

void RetriedCall::FinishAttempt(AttemptOutcome outcome) {
  if (outcome.status.ok()) return Finish(std::move(outcome));
  if (absl::IsCancelled(outcome.status) && !cancelled()) {
    outcome.status = absl::UnavailableError(absl::StrCat("the server broke off: ", outcome.status.message()));
  }
  const std::optional<absl::Duration> delay = RetryDelay(outcome);
  if (!delay) {
    outcome.status = FinalStatus(outcome.status);
    return Finish(std::move(outcome));
  }
  earlier_failure_ = outcome.status;
  const int step = NextStep();
  SetStop(step, environment_->timers->RunAfter(*delay, [self = shared_from_this()] {
    if (!self->cancelled()) return self->StartAttempt();
    self->Finish({.status = absl::CancelledError("cancelled by the caller")});
  }));
}

std::optional<absl::Duration> RetriedCall::RetryDelay(const AttemptOutcome& outcome) const {
  if (cancelled()) return std::nullopt;
  if (fail_fast_ && absl::IsUnavailable(outcome.status) &&
      environment_->stub->connectivity() == Connectivity::kUnreachable) {
    return std::nullopt;
  }
  const std::optional<absl::Duration> delay = environment_->policy.DelayBefore(attempts_, outcome);
  // A wait that outlasts the deadline helps nobody: what the server said is worth more than DEADLINE_EXCEEDED.
  return delay && *delay < TimeLeft() ? delay : std::nullopt;
}

absl::Status RetriedCall::FinalStatus(const absl::Status& last) const {
  if (cancelled()) return absl::CancelledError("cancelled by the caller");
  const Connectivity connectivity = environment_->stub->connectivity();
  if (absl::IsUnavailable(last) && connectivity == Connectivity::kUnreachable) {
    return absl::UnavailableError(
        absl::StrCat("no server at ", environment_->target, ": ", ConnectionReason(std::string(last.message()))));
  }
  if (!absl::IsDeadlineExceeded(last) || TimeLeft() > kDeadlineSlack) return last;  // the server's own decision
  const std::string timeout = absl::FormatDuration(deadline_ - start_);
  if (!earlier_failure_.ok()) {
    return absl::DeadlineExceededError(absl::StrCat("no answer from ", environment_->target, " within ", timeout, ", ",
                                                    attempts_, " attempts; before: ", earlier_failure_.message()));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(connectivity == Connectivity::kReady ? "no answer from " : "no connection to ", environment_->target,
                   " within ", timeout));
}

void RetriedCall::Finish(AttemptOutcome outcome) {
  NextStep();
  attempt_.request.Clear();  // whoever waits for the memory in it may go on
  const std::function<void(CallOutcome)> done = std::move(done_);
  done({.last = std::move(outcome), .attempts = attempts_, .duration = environment_->timers->Now() - start_});
}

void RetriedCall::Cancel() {
  std::function<void()> stop;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    stop = std::move(stop_);
    stop_ = nullptr;
  }
  if (stop) stop();
}

bool RetriedCall::cancelled() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_;
}

int RetriedCall::NextStep() {
  std::function<void()> last;  // dies outside the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  last = std::move(stop_);
  stop_ = nullptr;
  return ++step_;
}

void RetriedCall::SetStop(int step, std::function<void()> stop) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (step != step_) return;
    if (!cancelled_) {
      stop_ = std::move(stop);
      return;
    }
  }
  stop();
}

}  // namespace attend::client
