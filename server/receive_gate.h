// Bounds the bytes that are being received: who may start sending its message, and when.
//
// gRPC would read every message at once. A call stands before the gate from its headers on; until it is let in the
// server does not read, and HTTP/2 flow control holds back the sender.
//
// Order. Clients take turns, and each client's calls go first come first served. One client holds at most half of the
// budget, but one that holds nothing may start a call of any size that fits. Large calls leave a sixteenth of the
// budget free for small ones (at most a sixty-fourth each) while another large one is inside, so that senders which
// stall do not shut out everybody. A call that does not fit keeps its turn: small ones pass it where that cannot delay
// it, or while it has waited under a second.
#ifndef ATTEND_SERVER_RECEIVE_GATE_H_
#define ATTEND_SERVER_RECEIVE_GATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "server/backlog.h"
#include "server/turn_queue.h"

namespace attend::server {

// Thread-safe.
class ReceiveGate {
 public:
  // What a call is charged that does not announce its size.
  static constexpr int64_t kUnannouncedBytes = int64_t{4} << 20;

  struct Options {
    int64_t budget_bytes = 0;  // receive_budget
    // Outlives the gate.
    const core::Clock* clock = &core::Clock::Steady();
  };

  // One call's stay before and behind the gate. Made empty by the call, which keeps it in place; the gate outlives it.
  // Thread-safe: a call may be cancelled at any moment.
  class Visit {
   public:
    Visit() = default;
    ~Visit() { Leave(); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    // The whole message is there: from now on its real size is charged, which may exceed the budget for a while.
    // Only for a call that was let in.
    void Arrived(int64_t bytes);

    // Gives back the charge, or the place in the queue. True if the call was still waiting: its callback will never
    // come. False if it had been let in (the callback may be running, or about to), had left or never entered.
    bool Leave();

   private:
    friend class ReceiveGate;
    enum class State { kOutside, kWaiting, kInside };
    std::atomic<ReceiveGate*> gate_ = nullptr;  // set by the first Enter; all below is guarded by its lock
    State state_ = State::kOutside;
    std::string client_;
    int64_t charge_ = 0;
    absl::Time since_ = absl::InfinitePast();
    std::function<void()> let_in_;
  };

  enum class Entry {
    kLetIn,    // inside; the callback will not be called
    kWaiting,  // the callback will be called once, unless Leave returns true first
  };

  // `backlog` outlives the gate.
  ReceiveGate(const Options& options, Backlog& backlog);

  // A call of `client` asks to receive its message of `announced` bytes. `visit` is empty and is filled in before a
  // callback can come. `let_in` runs without locks on a thread that leaves or arrives, perhaps before Enter returns: it
  // must not block, and must keep alive what it touches. RESOURCE_EXHAUSTED as from Backlog::JoinQueue, if the call
  // would have to wait and may not.
  absl::StatusOr<Entry> Enter(Visit& visit, std::string client, std::optional<int64_t> announced,
                              std::function<void()> let_in);

  int64_t receiving_bytes() const;  // charged to calls inside
  int64_t waiting() const;          // calls before the gate

 private:
  using Callbacks = std::vector<std::function<void()>>;

  // What the visits of one client inside hold, and how many they are.
  struct Held {
    int64_t bytes = 0;
    int64_t visits = 0;
  };

  // Those before the gate that do not fit, as a search for the next one comes by them.
  struct Blocked {
    bool any = false;
    absl::Time since = absl::InfiniteFuture();  // the longest wait among them
    bool reserve_suffices = true;               // none of them needs the room that is left to small calls
  };

  // All under the lock.
  bool IsSmall(int64_t charge) const { return charge <= options_.budget_bytes / 64; }
  bool ClientMayHold(const Visit& visit) const;
  bool Fits(const Visit& visit) const;
  bool MayPass(const Visit& visit, const Blocked& blocked, absl::Time now) const;
  Visit* NextLetIn(absl::Time now) const;
  void LetInAll(absl::Time now, Callbacks& callbacks);
  void AddCharge(const Visit& visit);
  void TakeCharge(const Visit& visit);

  void Recharge(Visit& visit, int64_t bytes);
  bool Remove(Visit& visit);

  const Options options_;
  const int64_t reserve_;  // what large calls leave free
  Backlog& backlog_;
  mutable std::mutex mutex_;
  TurnQueue<Visit> queue_;
  std::unordered_map<std::string, Held> held_;  // of clients with visits inside
  int64_t receiving_bytes_ = 0;
  int64_t large_bytes_ = 0;  // of them, those of calls that are not small
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_RECEIVE_GATE_H_
