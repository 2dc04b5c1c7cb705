#include "client/retry_policy.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "client/status_payload.h"

namespace attend::client {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(50);
constexpr absl::Duration kLongestDelay = absl::Seconds(2);

}  // namespace

std::optional<absl::Duration> RetryPolicy::DelayBefore(int attempts, const AttemptOutcome& failure) const {
  const absl::StatusCode code = failure.status.code();
  if (code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kResourceExhausted) return std::nullopt;
  if (failure.retry_pushback) {
    int64_t milliseconds = 0;
    if (!absl::SimpleAtoi(*failure.retry_pushback, &milliseconds) || milliseconds < 0) return std::nullopt;
    return absl::Milliseconds(milliseconds);
  }
  if (const std::optional<absl::Duration> delay = DecodeRetryDelay(failure.details)) {
    return std::max(*delay, absl::ZeroDuration());
  }
  if (code == absl::StatusCode::kResourceExhausted) return std::nullopt;
  absl::Duration delay = kFirstDelay;
  for (int i = 1; i < attempts && delay < kLongestDelay; ++i) delay *= 2;
  return std::min(delay, kLongestDelay) * (0.5 + 0.5 * random_());
}

}  // namespace attend::client
