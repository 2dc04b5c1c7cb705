// The command line of `attend load`.
#ifndef ATTEND_CLIENT_LOAD_OPTIONS_H_
#define ATTEND_CLIENT_LOAD_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli11_names.h"
#include "client/length_mix.h"
#include "client/shape_options.h"

namespace attend::client {

struct LoadOptions : ShapeOptions {
  std::vector<int64_t> lengths;  // of the keys, and of the queries unless query_length is given
  std::vector<MixedLength> mix;  // in one load, after each alone; `lengths` are those of the mix
  float softcap = 0;
  bool weights = false;
  uint64_t seed = 1;

  // The load, for each length.
  int connections = 1;
  std::optional<int> concurrency;                   // closed loop; 1
  std::optional<double> rate;                       // open loop, calls a second
  int max_in_flight = 1024;                         // of an open loop
  std::optional<absl::Duration> duration;           // 5 s
  std::optional<int64_t> count;                     // instead of a duration
  absl::Duration warmup = absl::Milliseconds(500);  // calls before those that are measured; may be 0

  // Checking and reports.
  bool verify = false;
  int64_t verify_rows = 32;
  std::string json;  // empty: none, like those that follow
  std::string csv;
  std::string chart;

  // A UsageError for what excludes each other, for two reports in one file and for a chart that is neither .svg nor
  // .png.
  absl::Status Validate() const;

  // Calls in flight: all the time in a closed loop, at most in an open one.
  int InFlight() const { return rate ? max_in_flight : concurrency.value_or(1); }

  // "8 heads on 2, dims 64, f32, causal top_left": the problem in a few words, for titles.
  std::string ProblemText() const;
  // "4 calls in flight on 1 connection" or "100 calls/s on 2 connections": the load likewise.
  std::string LoadText() const;
};

// Adds the options to `command`; parsing fills `options`, which outlives it.
void AddLoadOptions(CLI::App& command, LoadOptions& options);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_OPTIONS_H_
