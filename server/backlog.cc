#include "server/backlog.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/violation.h"

namespace attend::server {
namespace {

constexpr absl::string_view kRetryDelayUrl = "attend.server/RetryDelay";  // payload: nanoseconds, decimal
constexpr absl::Duration kLeastDelay = absl::Milliseconds(50);
constexpr absl::Duration kMostDelay = absl::Seconds(10);
constexpr int64_t kJobsToJudge = 20;   // recorded jobs before a deadline is called hopeless
constexpr size_t kRatesKept = 256;     // the latest jobs, of which the fastest counts
constexpr double kNewRateShare = 0.1;  // of the moving average

}  // namespace

std::optional<absl::Duration> SuggestedRetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryDelayUrl);
  int64_t nanoseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &nanoseconds)) return std::nullopt;
  return absl::Nanoseconds(nanoseconds);
}

Backlog::Backlog(const Options& options)
    : options_(options), usual_rate_(std::max(options.initial_rate, 1.0)), random_(options.seed) {}

absl::Status Backlog::CheckRoom() {
  const absl::Time now = options_.clock->Now();
  const std::lock_guard lock(mutex_);
  if (queued_ == 0 || queued_ < options_.max_queued_requests) return absl::OkStatus();
  return Refuse(now);
}

absl::Status Backlog::JoinQueue() {
  const absl::Time now = options_.clock->Now();
  const std::lock_guard lock(mutex_);
  if (queued_ >= options_.max_queued_requests) return Refuse(now);
  ++queued_;
  return absl::OkStatus();
}

void Backlog::LeaveQueue() {
  const std::lock_guard lock(mutex_);
  --queued_;
}

void Backlog::AddWork(int64_t multiply_adds) {
  const std::lock_guard lock(mutex_);
  ++admitted_jobs_;
  admitted_work_ += static_cast<double>(multiply_adds);
}

void Backlog::RemoveWork(int64_t multiply_adds) {
  const std::lock_guard lock(mutex_);
  --admitted_jobs_;
  // Sums of doubles in another order leave a remainder: none without jobs.
  admitted_work_ = admitted_jobs_ == 0 ? 0 : std::max(0.0, admitted_work_ - static_cast<double>(multiply_adds));
}

void Backlog::RecordJob(int64_t multiply_adds, absl::Duration busy) {
  if (multiply_adds <= 0 || busy <= absl::ZeroDuration()) return;
  const double rate = static_cast<double>(multiply_adds) / absl::ToDoubleSeconds(busy) * options_.workers;
  const std::lock_guard lock(mutex_);
  usual_rate_ += kNewRateShare * (rate - usual_rate_);
  ++recorded_jobs_;
  last_rates_.push_back(rate);
  if (last_rates_.size() > kRatesKept) last_rates_.pop_front();
}

absl::Status Backlog::CheckDeadline(int64_t multiply_adds, absl::Time deadline) const {
  if (deadline == absl::InfiniteFuture()) return absl::OkStatus();
  const absl::Duration left = deadline - options_.clock->Now();
  if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("the deadline passed before the work began");
  const std::lock_guard lock(mutex_);
  if (recorded_jobs_ < kJobsToJudge) return absl::OkStatus();
  double fastest = options_.initial_rate;
  for (const double rate : last_rates_) fastest = std::max(fastest, rate);
  const absl::Duration least = absl::Seconds(static_cast<double>(multiply_adds) / std::max(fastest, 1.0));
  if (least <= left) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("the deadline is ", absl::FormatDuration(left),
                                                  " away, the computation takes at least ",
                                                  absl::FormatDuration(absl::Trunc(least, absl::Microseconds(1)))));
}

int64_t Backlog::queued() const {
  const std::lock_guard lock(mutex_);
  return queued_;
}

// How long until one more place is free: the mean time between the ends of admitted jobs, as each end admits another.
absl::Duration Backlog::PredictDeparture() const {
  if (admitted_jobs_ == 0) return kLeastDelay;
  return absl::Seconds(admitted_work_ / static_cast<double>(admitted_jobs_) / usual_rate_);
}

absl::Status Backlog::Refuse(absl::Time now) {
  promised_until_ = std::max(promised_until_, now) + PredictDeparture();
  promised_until_ = std::min(promised_until_, now + kMostDelay);
  const double factor = std::uniform_real_distribution<double>(0.8, 1.2)(random_);
  const absl::Duration delay = std::clamp(promised_until_ - now, kLeastDelay, kMostDelay) * factor;
  const std::string limit = absl::StrCat(options_.max_queued_requests);
  const core::Violation violation = {.field = "max_queued_requests",
                                     .reason = "QUEUE_FULL",
                                     .value = absl::StrCat(queued_),
                                     .limit = absl::StrCat("at most ", limit)};
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat(queued_, " requests are waiting, at most ", limit, " may (max_queued_requests); try again in ",
                   absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1)))));
  core::InvalidArgument(violation).ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  status.SetPayload(kRetryDelayUrl, absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(delay))));
  return status;
}

}  // namespace attend::server
