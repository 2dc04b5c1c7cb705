#include "core/clock.h"

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace attend::core {
namespace {

class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override {
    return wall_start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
  }

 private:
  const absl::Time wall_start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

}  // namespace

const Clock& Clock::Steady() {
  static const SteadyClock* const kClock = new SteadyClock;  // never destroyed: threads may outlive main
  return *kClock;
}

}  // namespace attend::core
