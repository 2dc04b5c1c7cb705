// What is counted and measured, and its text for Prometheus. Base units; no label has a value that a client chose.
#ifndef ATTEND_SERVER_METRICS_H_
#define ATTEND_SERVER_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attend::server {

// The methods that requests are counted by.
enum class Method { kAttend, kGetServerInfo, kHealthCheck, kHealthWatch, kOther };

// Why a request was refused before any work on it.
enum class RejectReason {
  kQueueFull,
  kMessageTooLarge,
  kNeverAdmissible,
  kDraining,
  kDeadline,
  kReceiveTimeout,
  kUnauthenticated
};

// What a request was waiting for when it was cancelled or its deadline passed.
enum class CallStage { kReceiving, kQueued, kComputing, kSending };

// What a finished request took.
struct RequestMeasures {
  absl::Duration receive;
  absl::Duration queue;
  absl::Duration compute;  // packing included
  int64_t request_bytes = 0;
  int64_t response_bytes = 0;
  int64_t query_length = 0;
  int64_t key_length = 0;
};

// A value that is read when metrics are asked for. Called on any thread.
struct LiveValue {
  std::string name;
  std::string help;
  bool is_counter = false;  // else a gauge
  std::function<double()> read;
  // The label and its value, if any. Values of one name are added one after the other.
  std::optional<std::pair<std::string, std::string>> label = std::nullopt;
};

// What the program is.
struct BuildIdentity {
  std::string version;
  std::string onednn_version;
  std::string instruction_set;
};

// Thread-safe but for AddLive, which comes before the first Text().
class Metrics {
 public:
  explicit Metrics(const BuildIdentity& identity);
  ~Metrics();

  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void AddLive(LiveValue value);

  // A call has ended, `duration` after its headers.
  void CountRequest(Method method, absl::StatusCode code, absl::Duration duration);
  // An Attend call was computed.
  void Observe(const RequestMeasures& measures);
  void CountMultiplyAdds(int64_t multiply_adds);
  void CountRejected(RejectReason reason);
  // How long a refusal took: from the headers, or where only the message shows it from its last byte, to the status
  // handed to gRPC.
  void ObserveRefusal(absl::Duration duration);
  void CountCancelled(CallStage stage);

  // Everything, in Prometheus' text format.
  std::string Text() const;

 private:
  class Registered;
  std::unique_ptr<Registered> registered_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_METRICS_H_
