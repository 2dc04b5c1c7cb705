// Holds a call's outcome back until the caller's memory is free again.
//
// Why: gRPC may end a call (at its deadline, say) while the transport still has pieces of its message to write, and
// those are the caller's own memory, not copies. A caller that is told that the call is over must be able to free it.
#ifndef ATTEND_CLIENT_DELIVERY_H_
#define ATTEND_CLIENT_DELIVERY_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "client/retried_call.h"
#include "client/timers.h"

namespace attend::client {

// Thread-safe. Kept alive by those it waits for.
class Delivery : public std::enable_shared_from_this<Delivery> {
 public:
  // `timers` outlives the delivery.
  explicit Delivery(Timers& timers) : timers_(timers) {}

  // Called once, first: the memory counts as free when every copy of the result is gone.
  std::shared_ptr<const void> HoldMemory();

  // Called once. `done` is called here if the memory is free, else by the timers as soon as it is (it comes free inside
  // gRPC's transport, which is no place to run foreign code).
  void SetOutcome(CallOutcome outcome, std::function<void(CallOutcome)> done);

 private:
  void MemoryIsFree();

  Timers& timers_;
  std::function<void(CallOutcome)> done_;
  std::mutex mutex_;
  bool free_ = false;
  std::optional<CallOutcome> outcome_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_DELIVERY_H_
