// One thread sends, counts and decides; callbacks only hand over their answer with the time at which it came. So all
// the bookkeeping is sequential, and a fake clock that runs the callbacks itself makes every test exact.
#include "client/load_loop.h"

#include <algorithm>
#include <utility>

namespace attend::client {
namespace {

// How often interruption and progress are looked at.
constexpr absl::Duration kGlance = absl::Milliseconds(50);

}  // namespace

LoadLoop::LoadLoop(Starter starter, Options options, LoadClock& clock)
    : starter_(std::move(starter)), options_(std::move(options)), clock_(clock) {}

absl::Time LoadLoop::NextDue(absl::Time now) const {
  return schedule_ ? schedule_->At(sent_) : std::max(now, pause_until_);
}

LoopOutcome LoadLoop::Run(const LoopLimits& limits) {
  LoopOutcome outcome;
  if (options_.kinds > 1) outcome.by_kind.resize(options_.kinds);
  const absl::Time start = clock_.Now();
  const absl::Time end = start + limits.duration;
  if (options_.rate) schedule_.emplace(start, *options_.rate);
  sent_ = 0;
  pause_until_ = last_answer_ = start;
  absl::Time stopped = absl::InfiniteFuture();

  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    TakeAnswers(outcome);
    const absl::Time now = clock_.Now();
    if (!outcome.interrupted && options_.interrupted()) {
      outcome.interrupted = true;
      stopped = std::min(stopped, now);
      CancelAll(lock);
      continue;
    }
    if (stopped == absl::InfiniteFuture() && (now >= end || sent_ >= limits.count)) {
      // The last interval of a schedule belongs to its calls.
      stopped = schedule_ && sent_ >= limits.count ? std::min(schedule_->At(sent_), end) : now;
    }
    const bool stopping = stopped != absl::InfiniteFuture();
    if (stopping && due_.empty()) break;
    const bool room = static_cast<int>(due_.size()) < options_.in_flight;
    const absl::Time next = NextDue(now);
    if (!stopping && room && next <= now) {
      Send(lock, next);
      continue;
    }
    absl::Time wake = now + kGlance;
    if (!stopping) wake = std::min(wake, end);
    if (!stopping && room) wake = std::min(wake, next);
    if (answers_.empty()) clock_.WaitUntil(lock, changed_, wake);
    if (!options_.progress) continue;
    lock.unlock();  // a terminal that is slow must not keep answers from being timed
    options_.progress(outcome.measurement, now - start);
    lock.lock();
  }
  outcome.elapsed = std::max(stopped, last_answer_) - start;
  if (schedule_) {
    const int64_t due = std::min(limits.count, schedule_->DueBefore(std::min(stopped, end)));
    outcome.unsent = std::max<int64_t>(0, due - sent_);
  }
  return outcome;
}

void LoadLoop::Send(std::unique_lock<std::mutex>& lock, absl::Time due) {
  const int64_t call = sent_++;
  due_.emplace(call, due);
  lock.unlock();
  std::function<void()> cancel = starter_(call, [this, call](CallRecord record) {
    const absl::Time now = clock_.Now();
    const std::lock_guard<std::mutex> guard(mutex_);
    answers_.push_back({.call = call, .record = std::move(record), .time = now});
    changed_.notify_one();
  });
  lock.lock();
  cancellers_.emplace(call, std::move(cancel));
}

void LoadLoop::TakeAnswers(LoopOutcome& outcome) {
  for (const Answer& answer : answers_) {
    const auto due = due_.find(answer.call);
    last_answer_ = std::max(last_answer_, answer.time);
    if (outcome.interrupted && absl::IsCancelled(answer.record.status)) {
      ++outcome.abandoned;
    } else {
      const absl::Duration latency = answer.time - due->second;
      outcome.measurement.Add(answer.record, latency);
      if (!outcome.by_kind.empty()) outcome.by_kind[answer.record.kind].Add(answer.record, latency);
    }
    if (absl::IsUnavailable(answer.record.status)) pause_until_ = std::max(pause_until_, answer.time + kPause);
    due_.erase(due);
    cancellers_.erase(answer.call);
  }
  answers_.clear();
}

void LoadLoop::CancelAll(std::unique_lock<std::mutex>& lock) {
  const std::unordered_map<int64_t, std::function<void()>> cancellers = std::exchange(cancellers_, {});
  lock.unlock();
  for (const auto& [call, cancel] : cancellers) cancel();
  lock.lock();
}

}  // namespace attend::client
