#include "client/load_measurement.h"

namespace attend::client {

void LoadMeasurement::Add(const CallRecord& record, absl::Duration latency) {
  if (!record.status.ok()) {
    ++errors_[record.status.code()];
    messages_.try_emplace(record.status.code(), record.status.message());
    return;
  }
  latencies_.Add(latency);
  server_.receive += record.server.receive;
  server_.queue += record.server.queue;
  server_.pack += record.server.pack;
  server_.compute += record.server.compute;
  server_.encode += record.server.encode;
  multiply_adds_ += record.multiply_adds;
  bytes_ += record.bytes;
}

int64_t LoadMeasurement::failed() const {
  int64_t failed = 0;
  for (const auto& [code, count] : errors_) failed += count;
  return failed;
}

ServerTimings LoadMeasurement::MeanServerTimings() const {
  if (ok() == 0) return {};
  return {.receive = server_.receive / ok(),
          .queue = server_.queue / ok(),
          .pack = server_.pack / ok(),
          .compute = server_.compute / ok(),
          .encode = server_.encode / ok()};
}

}  // namespace attend::client
