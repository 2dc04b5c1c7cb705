// What the benchmark programs are asked, one line each: a word, then name=value pairs, parted by spaces.
#ifndef ATTEND_TESTS_BENCH_BENCH_REQUEST_H_
#define ATTEND_TESTS_BENCH_BENCH_REQUEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention_problem.h"

namespace attend::bench {

struct BenchRequest {
  std::string word;
  std::map<std::string, std::string> values;

  // INVALID_ARGUMENT for a part that is no name=value.
  static absl::StatusOr<BenchRequest> Parse(absl::string_view line);

  // `otherwise` where the name is missing or its value is no number.
  int64_t Number(const std::string& name, int64_t otherwise) const;
  // INVALID_ARGUMENT for an unknown type; f32 if there is none.
  absl::StatusOr<core::ElementType> Type() const;
  // Of batch, query_heads, kv_heads, queries, keys, dim, type, causal (0 or 1) and window (keys that a query sees; 0:
  // all).
  absl::StatusOr<core::AttentionProblem> Problem() const;
};

// A line of JSON for an answer: itself, or {"error": "..."}.
std::string JsonLine(const absl::StatusOr<std::string>& answer);

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_BENCH_REQUEST_H_
