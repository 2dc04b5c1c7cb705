// What a load test saw: every answer, counted by its code.
#ifndef ATTEND_CLIENT_LOAD_MEASUREMENT_H_
#define ATTEND_CLIENT_LOAD_MEASUREMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/attend_client.h"
#include "client/latency_record.h"

namespace attend::client {

// One answer.
struct CallRecord {
  absl::Status status;
  ServerTimings server = {};  // this and what follows: of an answer that is OK
  int64_t multiply_adds = 0;
  int64_t bytes = 0;  // request and response
  size_t kind = 0;    // of several in one load: which
};

// The answers of one run. Not thread-safe.
class LoadMeasurement {
 public:
  // An answer, and the time from when the call was to be sent until it came.
  void Add(const CallRecord& record, absl::Duration latency);

  int64_t ok() const { return latencies_.count(); }
  int64_t failed() const;
  const std::map<absl::StatusCode, int64_t>& errors() const { return errors_; }
  // One message of each code: what to show beside the counts.
  const std::map<absl::StatusCode, std::string>& messages() const { return messages_; }

  // Of answers that are OK.
  const LatencyRecord& latencies() const { return latencies_; }
  int64_t multiply_adds() const { return multiply_adds_; }
  int64_t bytes() const { return bytes_; }
  // The server's own times, as their mean; all 0 without answers.
  ServerTimings MeanServerTimings() const;

 private:
  LatencyRecord latencies_;
  ServerTimings server_ = {};  // sums
  int64_t multiply_adds_ = 0;
  int64_t bytes_ = 0;
  std::map<absl::StatusCode, int64_t> errors_;
  std::map<absl::StatusCode, std::string> messages_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_MEASUREMENT_H_
