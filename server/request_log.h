// One line per request.
#ifndef ATTEND_SERVER_REQUEST_LOG_H_
#define ATTEND_SERVER_REQUEST_LOG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/attention_problem.h"
#include "server/log.h"
#include "server/rate_sampler.h"

namespace attend::server {

// What is known of a finished request. Never tensor contents.
struct RequestRecord {
  std::string id;
  absl::string_view method;
  std::string peer;
  std::string client;       // who calls, as Security has it; empty if it was not taken
  std::string traceparent;  // the caller's, empty if it sent none
  absl::Status status;
  int64_t request_bytes = 0;
  int64_t response_bytes = 0;
  absl::Duration receive;
  absl::Duration queue;
  absl::Duration pack;
  absl::Duration compute;
  absl::Duration total;
  std::optional<core::AttentionProblem> problem;  // once it was decoded
};

// Thread-safe.
class RequestLog {
 public:
  // `log` outlives this. Of more than `lines_per_second` requests in a second the others are counted, and the next line
  // says how many they were.
  RequestLog(Log& log, int64_t lines_per_second) : log_(log), sampler_(lines_per_second) {}

  void Write(const RequestRecord& record, absl::Time now);

 private:
  Log& log_;
  RateSampler sampler_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_REQUEST_LOG_H_
