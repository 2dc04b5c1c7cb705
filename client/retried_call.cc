// A call is a chain of steps, attempt, wait, attempt, ..., each started by the end of the one before, so members that
// only steps touch need no lock. Cancel comes from outside: it may arrive while a step is being started, when there is
// nothing to stop yet. Therefore steps are numbered: SetStop keeps the function that stops a step only if that step is
// still the last one, and calls it at once if Cancel came first.
#include "client/retried_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

// gRPC counts deadlines in whole milliseconds: its own may come this much before ours.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(5);

// True for what gRPC puts before a reason: a status word ("UNKNOWN") or an address ("ipv4:127.0.0.1:8001").
bool IsPreamble(absl::string_view text) {
  const bool word = std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isupper(c) || c == '_'; });
  return word || absl::StartsWith(text, "ipv4:") || absl::StartsWith(text, "ipv6:") || absl::StartsWith(text, "unix:");
}

// gRPC says at length what could not be reached; the last cause is what helps.
std::string ConnectionReason(absl::string_view message) {
  for (const absl::string_view prefix : {"last error: ", "Failed to connect to remote host: "}) {
    if (const size_t found = message.find(prefix); found != message.npos) message.remove_prefix(found + prefix.size());
  }
  for (size_t end = message.find(": "); end != message.npos; end = message.find(": ")) {
    if (!IsPreamble(message.substr(0, end))) break;
    message.remove_prefix(end + 2);
  }
  if (absl::StartsWith(message, "DNS resolution failed")) {
    return absl::StrCat("DNS resolution failed: ", message.substr(message.rfind(": ") + 2));
  }
  return std::string(message);
}

// Whether there is a server, but one that was not believed or understood.
bool IsHandshake(absl::string_view reason) {
  const std::string lower = absl::AsciiStrToLower(reason);
  return absl::StrContains(lower, "handshake") || absl::StrContains(lower, "verification") ||
         absl::StrContains(lower, "peer name");
}

// Whether the connection was made, and ended before anything was said.
bool IsClosed(absl::string_view reason) {
  return absl::StrContains(reason, "Socket closed") || absl::StrContains(reason, "Connection reset");
}

}  // namespace

RetriedCall::RetriedCall(std::shared_ptr<const CallEnvironment> environment, CallAttempt attempt,
                         const CallOptions& options)
    : environment_(std::move(environment)), attempt_(std::move(attempt)), options_(options) {}

void RetriedCall::Start(std::function<void(CallOutcome)> done) {
  done_ = std::move(done);
  start_ = environment_->timers->Now();
  deadline_ = start_ + options_.timeout;
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
    outcome.status = FinalStatus(outcome);
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
  if (cancelled() || !options_.retry) return std::nullopt;
  if (options_.fail_fast && absl::IsUnavailable(outcome.status) &&
      environment_->stub->connectivity() == Connectivity::kUnreachable) {
    return std::nullopt;
  }
  const std::optional<absl::Duration> delay = environment_->policy.DelayBefore(attempts_, outcome);
  // A wait that outlasts the deadline helps nobody: what the server said is worth more than DEADLINE_EXCEEDED.
  return delay && *delay < TimeLeft() ? delay : std::nullopt;
}

absl::Status RetriedCall::FinalStatus(const AttemptOutcome& outcome) const {
  if (cancelled()) return absl::CancelledError("cancelled by the caller");
  const absl::Status& last = outcome.status;
  const std::string& target = environment_->target;
  const Connectivity connectivity = environment_->stub->connectivity();
  if (absl::IsUnavailable(last) && connectivity == Connectivity::kUnreachable) {
    std::string reason = ConnectionReason(last.message());
    if (IsClosed(reason) && !environment_->closing_cause.empty()) {
      absl::StrAppend(&reason, ": ", environment_->closing_cause);
    }
    return absl::UnavailableError(
        absl::StrCat(IsHandshake(reason) ? "no TLS with " : "no server at ", target, ": ", reason));
  }
  if (absl::IsDeadlineExceeded(last) && TimeLeft() <= kDeadlineSlack) {
    const std::string within = absl::StrCat(target, " within ", absl::FormatDuration(options_.timeout));
    if (!earlier_failure_.ok()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no answer from ", within, " in ", attempts_,
                       " attempts; the one before the last: ", earlier_failure_.message()));
    }
    return absl::DeadlineExceededError(
        absl::StrCat(connectivity == Connectivity::kReady ? "no answer from " : "no connection to ", within));
  }
  const bool from_our_server = !outcome.details.empty() || !outcome.request_id.empty();
  return from_our_server ? last : absl::Status(last.code(), absl::StrCat(target, ": ", last.message()));
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
