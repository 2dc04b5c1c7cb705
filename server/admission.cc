#include "server/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/violation.h"

namespace attend::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(1);

absl::Status Expired() {
  return absl::DeadlineExceededError("the deadline passed while the request waited for memory");
}

}  // namespace

Admission::Admission(const Options& options, Backlog& backlog) : options_(options), backlog_(backlog) {}

absl::StatusOr<Admission::Decision> Admission::Admit(Reservation& reservation, Request request,
                                                     std::function<void(const absl::Status&)> decided) {
  if (request.bytes > options_.memory_budget_bytes) {
    const core::Violation violation = {.field = request.largest_field,
                                       .reason = "MEMORY_BUDGET_EXCEEDED",
                                       .value = absl::StrCat(request.bytes),
                                       .limit = absl::StrCat("at most ", options_.memory_budget_bytes)};
    return core::InvalidArgument(
        violation, absl::StrCat("computing this request takes ", request.bytes, " bytes of memory, most of them for ",
                                request.largest_field, "; the memory budget is ", options_.memory_budget_bytes));
  }
  if (absl::Status status = backlog_.CheckDeadline(request.multiply_adds, request.deadline); !status.ok())
    return status;
  const absl::Time now = options_.clock->Now();
  if (request.deadline <= now) return Expired();
  Callbacks callbacks;
  absl::StatusOr<Decision> decision = Decision::kAdmitted;
  {
    const std::lock_guard lock(mutex_);
    reservation.admission_ = this;
    reservation.request_ = std::move(request);
    reservation.state_ = Reservation::State::kWaiting;
    reservation.since_ = now;
    queue_.Add(reservation.request_.client, &reservation);
    AdmitAll(now, callbacks);
    if (reservation.state_ == Reservation::State::kWaiting) decision = Wait(reservation, std::move(decided));
  }
  for (auto& [callback, status] : callbacks) callback(status);
  return decision;
}

// The reservation is in the queue already: lets it stay, or takes it out if no more may wait.
absl::StatusOr<Admission::Decision> Admission::Wait(Reservation& reservation,
                                                    std::function<void(const absl::Status&)> decided) {
  if (absl::Status status = backlog_.JoinQueue(); !status.ok()) {
    queue_.Remove(reservation.request_.client, &reservation);
    reservation.state_ = Reservation::State::kEmpty;
    return status;
  }
  reservation.decided_ = std::move(decided);
  return Decision::kWaiting;
}

void Admission::DropExpired() {
  Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    AdmitAll(options_.clock->Now(), callbacks);
  }
  for (auto& [callback, status] : callbacks) callback(status);
}

// Under 1/64 of the budget.
bool Admission::IsSmall(const Reservation& reservation) const {
  return reservation.request_.bytes <= (options_.memory_budget_bytes - 1) / 64;
}

bool Admission::Fits(const Reservation& reservation) const {
  return reservation.request_.bytes <= options_.memory_budget_bytes - reserved_bytes_;
}

Admission::Reservation* Admission::NextAdmitted(absl::Time now) {
  Reservation* next = nullptr;
  absl::Time blocked_since = absl::InfiniteFuture();  // the longest wait among those that would be passed
  queue_.ForEachInOrder([&](Reservation* candidate) {
    const bool may_go = blocked_since == absl::InfiniteFuture() || IsSmall(*candidate);
    if (may_go && Fits(*candidate)) {
      next = candidate;
      return false;
    }
    blocked_since = std::min(blocked_since, candidate->since_);
    return now - blocked_since < kPatience;
  });
  return next;
}

void Admission::Expire(absl::Time now, Callbacks& callbacks) {
  std::vector<Reservation*> expired;
  queue_.ForEachInOrder([&](Reservation* waiting) {
    if (waiting->request_.deadline <= now) expired.push_back(waiting);
    return true;
  });
  for (Reservation* const reservation : expired) {
    queue_.Remove(reservation->request_.client, reservation);
    reservation->state_ = Reservation::State::kEmpty;
    backlog_.LeaveQueue();
    callbacks.emplace_back(std::move(reservation->decided_), Expired());
  }
}

void Admission::AdmitAll(absl::Time now, Callbacks& callbacks) {
  Expire(now, callbacks);
  while (Reservation* const next = NextAdmitted(now)) {
    queue_.Serve(next->request_.client, next);
    next->state_ = Reservation::State::kAdmitted;
    reserved_bytes_ += next->request_.bytes;
    backlog_.AddWork(next->request_.multiply_adds);
    if (next->decided_ == nullptr) continue;  // the one that asks just now: it is told by Admit, and never waited
    backlog_.LeaveQueue();
    callbacks.emplace_back(std::move(next->decided_), absl::OkStatus());
    next->decided_ = nullptr;
  }
}

bool Admission::Remove(Reservation& reservation) {
  Callbacks callbacks;
  bool waited = false;
  std::function<void(const absl::Status&)>
      dropped;  // destroyed without the lock: it may own the call, and so what is removed here
  {
    const std::lock_guard lock(mutex_);
    const Reservation::State state = std::exchange(reservation.state_, Reservation::State::kEmpty);
    if (state == Reservation::State::kEmpty) return false;
    waited = state == Reservation::State::kWaiting;
    if (waited) {
      queue_.Remove(reservation.request_.client, &reservation);
      dropped = std::exchange(reservation.decided_, nullptr);
      backlog_.LeaveQueue();
    } else {
      reserved_bytes_ -= reservation.request_.bytes;
      backlog_.RemoveWork(reservation.request_.multiply_adds);
    }
    AdmitAll(options_.clock->Now(), callbacks);
  }
  for (auto& [callback, status] : callbacks) callback(status);
  return waited;
}

bool Admission::Reservation::Release() {
  Admission* const admission = admission_.load();
  return admission != nullptr && admission->Remove(*this);
}

int64_t Admission::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

int64_t Admission::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

}  // namespace attend::server
