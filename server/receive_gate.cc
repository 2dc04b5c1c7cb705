#include "server/receive_gate.h"

#include <algorithm>
#include <utility>

namespace attend::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

ReceiveGate::ReceiveGate(const Options& options, Backlog& backlog)
    : options_(options), reserve_(options.budget_bytes / 16), backlog_(backlog) {}

absl::StatusOr<ReceiveGate::Entry> ReceiveGate::Enter(Visit& visit, std::string client,
                                                      std::optional<int64_t> announced, std::function<void()> let_in) {
  const absl::Time now = options_.clock->Now();
  Callbacks callbacks;
  absl::StatusOr<Entry> entry = Entry::kLetIn;
  {
    const std::lock_guard lock(mutex_);
    visit.gate_ = this;
    visit.state_ = Visit::State::kWaiting;
    visit.client_ = std::move(client);
    // Never more than the budget: such a call waits until it is alone.
    visit.charge_ = std::clamp<int64_t>(announced.value_or(kUnannouncedBytes), 0, options_.budget_bytes);
    visit.since_ = now;
    queue_.Add(visit.client_, &visit);
    LetInAll(now, callbacks);
    if (visit.state_ == Visit::State::kWaiting) {
      if (absl::Status status = backlog_.JoinQueue(); status.ok()) {
        visit.let_in_ = std::move(let_in);
        entry = Entry::kWaiting;
      } else {
        queue_.Remove(visit.client_, &visit);
        visit.state_ = Visit::State::kOutside;
        entry = std::move(status);
      }
    }
  }
  for (const auto& callback : callbacks) callback();
  return entry;
}

bool ReceiveGate::ClientMayHold(const Visit& visit) const {
  const auto held = held_.find(visit.client_);
  return held == held_.end() || held->second.bytes + visit.charge_ <= options_.budget_bytes / 2;
}

bool ReceiveGate::Fits(const Visit& visit) const {
  if (visit.charge_ > options_.budget_bytes - receiving_bytes_) return false;
  if (IsSmall(visit.charge_) || large_bytes_ == 0) return true;
  return large_bytes_ + visit.charge_ <= options_.budget_bytes - reserve_;
}

bool ReceiveGate::MayPass(const Visit& visit, const Blocked& blocked, absl::Time now) const {
  if (!blocked.any) return true;
  if (!IsSmall(visit.charge_)) return false;
  if (now - blocked.since < kPatience) return true;
  // Small calls that keep to the reserve take nothing that a large one could have.
  const int64_t small_bytes = receiving_bytes_ - large_bytes_;
  return blocked.reserve_suffices && small_bytes + visit.charge_ <= reserve_;
}

ReceiveGate::Visit* ReceiveGate::NextLetIn(absl::Time now) const {
  Visit* next = nullptr;
  Blocked blocked;
  queue_.ForEachFirst([&](Visit* candidate) {
    if (!ClientMayHold(*candidate)) return true;  // waits for its own client's calls, so the others' turn comes first
    if (Fits(*candidate) && MayPass(*candidate, blocked, now)) {
      next = candidate;
      return false;
    }
    blocked.any = true;
    blocked.since = std::min(blocked.since, candidate->since_);
    if (IsSmall(candidate->charge_) || candidate->charge_ > options_.budget_bytes - reserve_) {
      blocked.reserve_suffices = false;
    }
    return true;
  });
  return next;
}

void ReceiveGate::LetInAll(absl::Time now, Callbacks& callbacks) {
  while (Visit* const next = NextLetIn(now)) {
    queue_.Serve(next->client_, next);
    next->state_ = Visit::State::kInside;
    AddCharge(*next);
    ++held_[next->client_].visits;
    if (next->let_in_ == nullptr) continue;  // the one that enters just now: it is told by Enter, and never waited
    backlog_.LeaveQueue();
    callbacks.push_back(std::move(next->let_in_));
    next->let_in_ = nullptr;
  }
}

void ReceiveGate::AddCharge(const Visit& visit) {
  receiving_bytes_ += visit.charge_;
  if (!IsSmall(visit.charge_)) large_bytes_ += visit.charge_;
  held_[visit.client_].bytes += visit.charge_;
}

void ReceiveGate::TakeCharge(const Visit& visit) {
  receiving_bytes_ -= visit.charge_;
  if (!IsSmall(visit.charge_)) large_bytes_ -= visit.charge_;
  held_[visit.client_].bytes -= visit.charge_;
}

void ReceiveGate::Recharge(Visit& visit, int64_t bytes) {
  Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (visit.state_ != Visit::State::kInside) return;
    TakeCharge(visit);
    visit.charge_ = std::max<int64_t>(bytes, 0);
    AddCharge(visit);
    LetInAll(options_.clock->Now(), callbacks);  // it may be less than was charged
  }
  for (const auto& callback : callbacks) callback();
}

bool ReceiveGate::Remove(Visit& visit) {
  Callbacks callbacks;
  bool waited = false;
  std::function<void()> dropped;  // destroyed without the lock: it may own the call, and so what is removed here
  {
    const std::lock_guard lock(mutex_);
    const Visit::State state = std::exchange(visit.state_, Visit::State::kOutside);
    if (state == Visit::State::kOutside) return false;
    waited = state == Visit::State::kWaiting;
    if (waited) {
      queue_.Remove(visit.client_, &visit);
      dropped = std::exchange(visit.let_in_, nullptr);
      backlog_.LeaveQueue();
    } else {
      TakeCharge(visit);
      const auto held = held_.find(visit.client_);
      if (--held->second.visits == 0) held_.erase(held);
    }
    LetInAll(options_.clock->Now(), callbacks);
  }
  for (const auto& callback : callbacks) callback();
  return waited;
}

void ReceiveGate::Visit::Arrived(int64_t bytes) {
  if (ReceiveGate* const gate = gate_.load(); gate != nullptr) gate->Recharge(*this, bytes);
}

bool ReceiveGate::Visit::Leave() {
  ReceiveGate* const gate = gate_.load();
  return gate != nullptr && gate->Remove(*this);
}

int64_t ReceiveGate::receiving_bytes() const {
  const std::lock_guard lock(mutex_);
  return receiving_bytes_;
}

int64_t ReceiveGate::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

}  // namespace attend::server
