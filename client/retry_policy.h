// Which failures are tried again, and when.
#ifndef ATTEND_CLIENT_RETRY_POLICY_H_
#define ATTEND_CLIENT_RETRY_POLICY_H_

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "client/stub.h"

namespace attend::client {

class RetryPolicy {
 public:
  // `random` gives numbers in [0, 1): the jitter.
  explicit RetryPolicy(std::function<double()> random) : random_(std::move(random)) {}

  // How long to wait before attempt number `attempts` + 1, after attempt number `attempts` (from 1) ended with
  // `failure`, which is not OK. Nothing: it must not be tried again. That is every code but UNAVAILABLE and
  // RESOURCE_EXHAUSTED, the latter without a delay from the server (google.rpc.RetryInfo or grpc-retry-pushback-ms),
  // and a negative or unreadable pushback (gRFC A6). The server's delay is taken as it is; without one the delay is 50
  // ms, doubled with every attempt up to 2 s, times a random 0.5 to 1.
  std::optional<absl::Duration> DelayBefore(int attempts, const AttemptOutcome& failure) const;

 private:
  std::function<double()> random_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_RETRY_POLICY_H_
