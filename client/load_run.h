// A whole load test against a server: for each length inputs, warm-up, measurement and verification.
#ifndef ATTEND_CLIENT_LOAD_RUN_H_
#define ATTEND_CLIENT_LOAD_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/attend_client.h"
#include "client/load_options.h"
#include "client/load_progress.h"
#include "client/load_report.h"

namespace attend::client {

// Normal random inputs for one length: the same for all its calls. CANCELLED once `interrupted`.
absl::StatusOr<AttendRequest> MakeLoadRequest(const LoadOptions& options, int64_t length,
                                              const std::function<bool()>& interrupted);

class LoadRun {
 public:
  // `options` are validated; each of `clients` is one connection; `call` holds for every call. All outlive the run.
  LoadRun(const LoadOptions& options, const std::vector<std::unique_ptr<Client>>& clients, const CallOptions& call,
          std::function<bool()> interrupted, LoadProgress& progress);

  // Measures the lengths in turn, and then their mix if one is asked for, until all are done, the run is interrupted,
  // no call of a length finds a server, or one cannot be tried (the report's `failure`: RESOURCE_EXHAUSTED if inputs
  // take too much memory). The report says what was measured up to then, and what `server` says it is.
  LoadReport Run(const v1::GetServerInfoResponse& server);

 private:
  class LengthCalls;

  // Measures lengths in one load. Their figures, in order, or none if the run was interrupted first.
  absl::StatusOr<std::vector<LengthFigures>> Measure(const std::vector<MixedLength>& lengths,
                                                     std::optional<double> rate, bool& interrupted);
  absl::Status Verify(const LengthCalls& calls, LengthFigures& figures);
  void MeasureAlone(LoadReport& report);
  void MeasureMix(LoadReport& report);

  const LoadOptions& options_;
  const std::vector<std::unique_ptr<Client>>& clients_;
  const CallOptions call_;
  const std::function<bool()> interrupted_;
  LoadProgress& progress_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_RUN_H_
