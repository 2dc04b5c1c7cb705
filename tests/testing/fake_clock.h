// A clock that stands still until a test moves it.
#ifndef ATTEND_TESTS_TESTING_FAKE_CLOCK_H_
#define ATTEND_TESTS_TESTING_FAKE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "core/clock.h"

namespace attend::testing {

// Thread-safe.
class FakeClock final : public core::Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixNanos(nanoseconds_.load()); }
  void Advance(absl::Duration by) { nanoseconds_.fetch_add(absl::ToInt64Nanoseconds(by)); }

 private:
  std::atomic<int64_t> nanoseconds_{int64_t{1'700'000'000} * 1'000'000'000};
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_FAKE_CLOCK_H_
