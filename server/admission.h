// Who may compute now: each request's predicted bytes are reserved from the memory budget before anything is allocated.
//
// Order. Clients take turns, and each client's requests go first come first served. A request that does not fit waits
// and keeps its turn: others pass it only while each of them needs under 1/64 of the budget and it has waited under a
// second.
#ifndef ATTEND_SERVER_ADMISSION_H_
#define ATTEND_SERVER_ADMISSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "server/backlog.h"
#include "server/turn_queue.h"

namespace attend::server {

// Thread-safe.
class Admission {
 public:
  struct Options {
    int64_t memory_budget_bytes = 0;
    // Outlives the admission.
    const core::Clock* clock = &core::Clock::Steady();
  };

  struct Request {
    std::string client;         // whose turn it takes
    int64_t bytes = 0;          // predicted: inputs, packed keys and values, results, scratch
    int64_t multiply_adds = 0;  // predicted
    absl::Time deadline = absl::InfiniteFuture();
    // What to name if the bytes can never be had: the path of the field that takes most of them.
    std::string largest_field = "query";
  };

  // The bytes that one request holds, or its place in the queue. Made empty by the call, which keeps it in place; the
  // admission outlives it. Destroying it releases. Thread-safe: a call may be cancelled at any moment.
  class Reservation {
   public:
    Reservation() = default;
    ~Reservation() { Release(); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    // Gives back the bytes, or the place in the queue. True if the request was still waiting: its callback will never
    // come. False if a decision was made (the callback may be running, or about to), or there is nothing to release.
    bool Release();

   private:
    friend class Admission;
    enum class State { kEmpty, kWaiting, kAdmitted };
    std::atomic<Admission*> admission_ = nullptr;  // set by the first Admit; all below is guarded by its lock
    State state_ = State::kEmpty;
    Request request_;
    absl::Time since_ = absl::InfinitePast();
    std::function<void(const absl::Status&)> decided_;
  };

  enum class Decision {
    kAdmitted,  // the bytes are reserved; the callback will not be called
    kWaiting,   // the callback will be called once, unless Release returns true first
  };

  // `backlog` outlives the admission.
  Admission(const Options& options, Backlog& backlog);

  // `reservation` is empty and is filled in before a callback can come. `decided` is called with OK once the bytes are
  // reserved, or with DEADLINE_EXCEEDED; without locks, on a thread that releases, admits or calls DropExpired, perhaps
  // before Admit returns: it must not block, and must keep alive what it touches.
  // INVALID_ARGUMENT with a Violation (MEMORY_BUDGET_EXCEEDED) for more than the whole budget, DEADLINE_EXCEEDED as
  // from Backlog::CheckDeadline, RESOURCE_EXHAUSTED as from Backlog::JoinQueue; on an error nothing is held.
  absl::StatusOr<Decision> Admit(Reservation& reservation, Request request,
                                 std::function<void(const absl::Status&)> decided);

  // Tells those that wait beyond their deadline. They are also noticed when their turn comes; this is for the server's
  // housekeeping.
  void DropExpired();

  int64_t reserved_bytes() const;
  int64_t waiting() const;  // requests that wait for bytes

 private:
  using Callbacks = std::vector<std::pair<std::function<void(const absl::Status&)>, absl::Status>>;

  // All under the lock.
  absl::StatusOr<Decision> Wait(Reservation& reservation, std::function<void(const absl::Status&)> decided);
  bool IsSmall(const Reservation& reservation) const;
  bool Fits(const Reservation& reservation) const;
  Reservation* NextAdmitted(absl::Time now);
  void AdmitAll(absl::Time now, Callbacks& callbacks);
  void Expire(absl::Time now, Callbacks& callbacks);

  bool Remove(Reservation& reservation);

  const Options options_;
  Backlog& backlog_;
  mutable std::mutex mutex_;
  TurnQueue<Reservation> queue_;
  int64_t reserved_bytes_ = 0;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_ADMISSION_H_
