// Compares what a service answered with the reference, row by row, and says how close it came.
#ifndef ATTEND_CLIENT_RESULT_VERIFICATION_H_
#define ATTEND_CLIENT_RESULT_VERIFICATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/attend_client.h"

namespace attend::client {

// The element of one result whose error is the largest share of its bound.
struct WorstElement {
  std::string name;  // "output[0, 3, 17, 5]"
  double got = 0;
  double exact = 0;
  double error = 0;  // |got - exact|; infinite where one of them is NaN and the other is not
  double bound = 0;  // the most that rounding accounts for: see RoundingBound
  bool within() const { return error <= bound; }
};

struct Verification {
  int64_t rows = 0;                 // compared
  int64_t total_rows = 0;           // the query rows of all heads and batch elements
  std::vector<WorstElement> worst;  // one for each result that was returned; empty if there is no row

  bool passed() const;
  // "64 of 4096 rows, nothing beyond rounding; closest to its bound: output[0, 3, 17, 5] off by 3.1e-07 of 8.0e-06"; of
  // one that failed, what is wrong.
  std::string Text() const;
};

struct VerificationOptions {
  int64_t rows = 64;  // the first, the last and others at random; 0: all. With weight_query_rows, so many of those too
  uint64_t seed = 0;
};

// Recomputes rows of `result` and compares them with what is present of it: output, weights, scores and logsumexp.
// INVALID_ARGUMENT for a request that makes no sense, DATA_LOSS for a result of the wrong shape or type.
absl::StatusOr<Verification> VerifyResult(const AttendRequest& request, const AttendResult& result,
                                          const VerificationOptions& options = {});

}  // namespace attend::client

#endif  // ATTEND_CLIENT_RESULT_VERIFICATION_H_
