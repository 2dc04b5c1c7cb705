#include "server/readiness.h"

#include "absl/strings/str_cat.h"

namespace attend::server {

absl::Status Readiness::CheckServing() const {
  if (draining_) return absl::UnavailableError("draining");
  if (!ready_) return absl::UnavailableError("starting");
  const absl::Time progress = options_.oldest_progress();
  const absl::Time now = options_.clock->Now();
  if (progress < now - options_.stuck_after) {
    return absl::UnavailableError(
        absl::StrCat("the oldest job has not advanced for ", absl::FormatDuration(now - progress)));
  }
  return absl::OkStatus();
}

absl::Status Readiness::Check() const {
  if (absl::Status status = CheckServing(); !status.ok()) return status;
  const absl::Status port = options_.check_port();
  return port.ok() ? port : absl::UnavailableError(absl::StrCat("the gRPC port: ", port.message()));
}

}  // namespace attend::server
