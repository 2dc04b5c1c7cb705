// How a load test is getting on, on one line of a terminal.
#ifndef ATTEND_CLIENT_LOAD_PROGRESS_H_
#define ATTEND_CLIENT_LOAD_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "client/load_measurement.h"

namespace attend::client {

// Writes over its own line; silent where `terminal` is false. Not thread-safe.
class LoadProgress {
 public:
  LoadProgress(std::ostream& stream, bool terminal) : stream_(stream), terminal_(terminal) {}
  ~LoadProgress() { Clear(); }
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  // What follows is about `what`, number `position` (from 1) of `total`.
  void StartPart(const std::string& what, size_t position, size_t total);
  // What is going on: "making inputs", "warming up".
  void ShowPhase(const std::string& phase);
  // The measurement so far; drawn a few times a second however often it is called.
  void ShowMeasurement(const LoadMeasurement& seen, absl::Duration elapsed);
  // Empties the line, for other output.
  void Clear();

 private:
  void Draw(const std::string& text);

  std::ostream& stream_;
  const bool terminal_;
  std::string prefix_;
  absl::Duration drawn_at_ = -absl::InfiniteDuration();
  bool drawn_ = false;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_PROGRESS_H_
