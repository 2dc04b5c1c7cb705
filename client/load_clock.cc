#include "client/load_clock.h"

#include <chrono>

namespace attend::client {
namespace {

class SteadyClock final : public LoadClock {
 public:
  absl::Time Now() override {
    return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  void WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, absl::Time time) override {
    changed.wait_for(lock, absl::ToChronoNanoseconds(time - Now()));
  }
};

}  // namespace

LoadClock& LoadClock::Steady() {
  static SteadyClock clock;
  return clock;
}

}  // namespace attend::client
