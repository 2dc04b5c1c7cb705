// One attempt at a unary call, as bytes: the seam between the client and gRPC. Virtual, so that retries are tested
// without a network.
#ifndef ATTEND_CLIENT_STUB_H_
#define ATTEND_CLIENT_STUB_H_

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attend::client {

struct CallAttempt {
  std::string method = {};  // "/attend.v1.AttentionService/Attend"
  std::vector<std::pair<std::string, std::string>> metadata = {};
  grpc::ByteBuffer request = {};  // shares the slices of the original
  absl::Duration timeout = absl::ZeroDuration();
};

struct AttemptOutcome {
  absl::Status status = absl::OkStatus();
  grpc::ByteBuffer response = {};  // where status is OK
  std::string details = {};        // grpc-status-details-bin: a serialized google.rpc.Status, or empty
  std::string request_id = {};     // trailer attend-request-id, or empty
  std::optional<std::string> retry_pushback = std::nullopt;  // trailer grpc-retry-pushback-ms
};

enum class Connectivity {
  kReady,        // at least one server is connected
  kConnecting,   // not known yet
  kUnreachable,  // every address was tried in vain
};

// Thread-safe.
class Stub {
 public:
  virtual ~Stub() = default;

  // Starts an attempt. `done` is called exactly once, on another thread, possibly before Start returns; it must not
  // block. Calling the result ends the attempt soon with CANCELLED, or does nothing if it is over.
  virtual std::function<void()> Start(CallAttempt attempt, std::function<void(AttemptOutcome)> done) = 0;

  virtual Connectivity connectivity() const = 0;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_STUB_H_
