// A report of two lengths with figures that are easy to recognise. For tests of what is made from it.
#ifndef ATTEND_CLIENT_EXAMPLE_REPORT_H_
#define ATTEND_CLIENT_EXAMPLE_REPORT_H_

#include "client/load_report.h"

namespace attend::client {

inline LoadReport ExampleReport() {
  LengthFigures small;
  small.key_length = 128;
  small.query_length = 128;
  small.ok = 1000;
  small.elapsed = absl::Seconds(4);
  small.requests_per_second = 250;
  small.tokens_per_second = 32000;
  small.gflops = 8.39;
  small.megabytes_per_second = 262;
  small.p50 = absl::Microseconds(1250);
  small.p90 = absl::Microseconds(1500);
  small.p99 = absl::Microseconds(2750);
  small.max = absl::Milliseconds(12);
  small.mean = absl::Microseconds(1300);
  small.server = {.receive = absl::Microseconds(200),
                  .queue = absl::Microseconds(30),
                  .pack = absl::Microseconds(40),
                  .compute = absl::Microseconds(500),
                  .encode = absl::Microseconds(60)};
  LengthFigures large = small;
  large.key_length = large.query_length = 2048;
  large.ok = 40;
  large.failed = 5;
  large.errors = {{absl::StatusCode::kResourceExhausted, 5}};
  large.messages = {{absl::StatusCode::kResourceExhausted, "max_queued_requests is 512"}};
  large.p50 = absl::Milliseconds(100);
  large.p99 = absl::Milliseconds(150);
  return {.address = "127.0.0.1:8001",
          .server_version = "0.1.0",
          .instruction_set = "avx512",
          .compute_threads = 2,
          .problem = "8 heads, dim 64, f32, causal top_left",
          .load = "4 calls in flight on 1 connection",
          .seed = 7,
          .lengths = {small, large}};
}

// The same with a load of both lengths, in which the small one takes twice as long.
inline LoadReport ExampleMixReport() {
  LoadReport report = ExampleReport();
  report.mix = {{.share = 0.9, .figures = report.lengths[0]}, {.share = 0.1, .figures = report.lengths[1]}};
  LengthFigures& beside = report.mix[0].figures;
  beside.ok = 90;
  beside.requests_per_second = 22.5;
  beside.p50 *= 2;
  beside.p99 *= 4;
  return report;
}

}  // namespace attend::client

#endif  // ATTEND_CLIENT_EXAMPLE_REPORT_H_
