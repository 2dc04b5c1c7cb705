// Whether this server should be sent calls: ready, not draining, and making progress.
#ifndef ATTEND_SERVER_READINESS_H_
#define ATTEND_SERVER_READINESS_H_

#include <atomic>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/clock.h"

namespace attend::server {

// Thread-safe.
class Readiness {
 public:
  struct Options {
    absl::Duration stuck_after;
    // When the longest-waiting job last advanced; InfiniteFuture without one.
    std::function<absl::Time()> oldest_progress;
    // Whether the gRPC port accepts connections.
    std::function<absl::Status()> check_port;
    const core::Clock* clock = &core::Clock::Steady();  // outlives this
  };

  explicit Readiness(Options options) : options_(std::move(options)) {}

  void SetReady() { ready_ = true; }
  void SetDraining() { draining_ = true; }

  // UNAVAILABLE, with the reason, if calls should go elsewhere: starting, draining, or stuck: the oldest job has not
  // advanced for stuck_after.
  absl::Status CheckServing() const;

  // The same, and whether the gRPC port accepts connections: takes as long as that takes.
  absl::Status Check() const;

 private:
  const Options options_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_READINESS_H_
