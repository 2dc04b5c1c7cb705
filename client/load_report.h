// The figures of a load test, one set for each sequence length.
#ifndef ATTEND_CLIENT_LOAD_REPORT_H_
#define ATTEND_CLIENT_LOAD_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load_loop.h"
#include "client/load_options.h"
#include "client/result_verification.h"

namespace attend::client {

// Times of answers that are OK; counts of all.
struct LengthFigures {
  int64_t key_length = 0;
  int64_t query_length = 0;

  int64_t ok = 0;
  int64_t failed = 0;
  std::map<absl::StatusCode, int64_t> errors;        // failed, by code
  std::map<absl::StatusCode, std::string> messages;  // one of each
  int64_t unsent = 0;                                // open loop: due, but too many calls were in flight
  int64_t abandoned = 0;                             // in flight when interrupted
  absl::Duration elapsed;

  double requests_per_second = 0;
  double tokens_per_second = 0;     // batch * query_length of each request
  double gflops = 0;                // 1e9 operations a second, a multiply-add being two
  double megabytes_per_second = 0;  // requests and responses, 1e6 bytes

  absl::Duration p50, p90, p99, max, mean;  // of the latency
  ServerTimings server = {};                // means, by the server's clock

  std::optional<Verification> verification;
  int64_t differing_answers = 0;  // whose bits were not those of the first: counted with --verify
};

// What the calls of one length saw in a load of several.
struct MixedFigures {
  double share = 0;  // of the calls
  LengthFigures figures;
};

struct LoadReport {
  std::string address;
  std::string server_version;
  std::string instruction_set;
  int compute_threads = 0;
  std::string problem;  // LoadOptions::ProblemText
  std::string load;     // LoadOptions::LoadText
  uint64_t seed = 0;
  std::vector<LengthFigures> lengths;  // each alone
  std::vector<MixedFigures> mix = {};  // the same lengths in one load, if they were measured so
  int64_t mix_unsent = 0;              // as in LengthFigures, of all lengths of the mix
  int64_t mix_abandoned = 0;
  bool interrupted = false;
  absl::Status failure = absl::OkStatus();  // why further lengths could not be tried
};

// Derives the figures of one length from the answers that a loop saw of it.
LengthFigures MakeLengthFigures(const LoadOptions& options, int64_t length, const LoopOutcome& outcome,
                                const LoadMeasurement& seen);

// "RESOURCE_EXHAUSTED 17, UNAVAILABLE 3"; "none" without errors.
std::string ErrorsText(const std::map<absl::StatusCode, int64_t>& errors);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_REPORT_H_
