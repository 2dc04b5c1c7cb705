// attend::client: attention from a service, in one call.
//
//   auto client = attend::client::Client::Create({.target = "127.0.0.1:8001"});
//   attend::client::AttendRequest request;
//   request.query = attend::client::FloatTensorView({batch, query_heads, query_length, head_dim}, q);
//   request.key = ...; request.value = ...;
//   request.options.set_causal(attend::v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
//   absl::StatusOr<attend::client::AttendResult> result = (*client)->Attend(request);
//   if (result.ok()) Use(result->output.floats());
//
// Options and results are those of the wire, under the same names: proto/attend/v1/attention.proto says what each
// means.
//
// Retries. A call that fails with UNAVAILABLE, or with RESOURCE_EXHAUSTED and a delay from the server, is sent again
// until its deadline: after the server's delay, else after an exponential backoff with jitter. Attention is idempotent,
// so this is safe. A CANCELLED that nobody here asked for counts as UNAVAILABLE (a server that shuts down may send it).
// Nothing else is tried again.
//
// Messages of any size are sent and received; the server has its own limits (GetServerInfo).
#ifndef ATTEND_CLIENT_ATTEND_CLIENT_H_
#define ATTEND_CLIENT_ATTEND_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "attend/v1/attention.pb.h"
#include "client/error_details.h"
#include "client/tensor.h"

namespace attend::client {

inline constexpr char kDefaultTarget[] = "127.0.0.1:8001";
// How long a call may take, retries included, where its CallOptions say nothing.
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(60);

// How a client knows its server, and how it is known to it. All but a name are paths of files, read when the client is
// made. Any of the first four means TLS; without, connections are in the clear.
struct SecurityOptions {
  std::string tls_ca = {};           // PEM: authorities of the server's certificate; empty: gRPC's root certificates
  std::string tls_cert = {};         // PEM: this client's certificate and its chain, for mutual TLS
  std::string tls_key = {};          // PEM: the key of tls_cert, without a passphrase
  std::string tls_server_name = {};  // the name in the server's certificate, where it is not the target's host
  std::string token_file = {};       // one line: the token that goes with every call, as authorization: Bearer TOKEN

  bool tls() const { return !(tls_ca.empty() && tls_cert.empty() && tls_key.empty() && tls_server_name.empty()); }
};

struct ClientOptions {
  // Any gRPC target: "host:port", "unix:/path", "ipv4:127.0.0.1:8001,127.0.0.1:9001" for two servers,
  // "dns:///name:port". With TLS, several servers need security.tls_server_name. Calls go round-robin over all
  // addresses that answer. HTTP proxies of the environment are not used.
  std::string target = kDefaultTarget;
  SecurityOptions security = {};
};

struct CallOptions {
  // From the start of the call to its end, retries included. More than 0.
  absl::Duration timeout = kDefaultTimeout;
  // A call that finds no server at any address fails at once with UNAVAILABLE instead of trying until its deadline.
  // Servers that are there and busy, or break off, are still tried again.
  bool fail_fast = false;
  // False: one attempt, whose failure is the call's: for measuring what a server answers.
  bool retry = true;
};

// One attention problem.
struct AttendRequest {
  TensorView query;
  TensorView key;
  TensorView value;
  attend::v1::AttentionOptions options;  // all but mask and bias, which are below; one that is set here is an error
  std::optional<TensorView> mask;        // options.mask
  std::optional<TensorView> bias;        // options.bias
  attend::v1::ResultSelection results;
  std::string request_id;  // the server makes one if empty
  int32_t priority = 0;
};

// Where the time of a call went, by the server's clock: see Timings in attention.proto.
struct ServerTimings {
  absl::Duration receive;
  absl::Duration queue;
  absl::Duration pack;
  absl::Duration compute;
  absl::Duration encode;
};

struct AttendResult {
  Tensor output;  // not present with omit_output
  Tensor weights;
  Tensor scores;
  Tensor logsumexp;
  ServerTimings server;
  int64_t multiply_adds = 0;
  std::string request_id;
  absl::Duration duration;     // by this client's clock, from the start of the call, retries included
  int attempts = 1;            // 1 + retries
  int64_t request_bytes = 0;   // of the message on the wire
  int64_t response_bytes = 0;  // likewise
};

// Answers of grpc.health.v1.
enum class Health { kUnknown, kServing, kNotServing, kServiceUnknown };
absl::string_view HealthName(Health health);  // "SERVING", as the protocol says it

// A handle on a call in progress. Cheap to copy; dropping it does not cancel. Thread-safe.
class PendingCall {
 public:
  PendingCall() = default;
  // The callback is called with CANCELLED soon, unless the call is over by then.
  void Cancel() const;

 private:
  friend class Client;
  explicit PendingCall(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
  std::function<void()> cancel_;
};

// Thread-safe. Each Client has connections of its own; many calls may be in flight at once.
//
// Statuses: the server's own, with its details (GetErrorDetails); and from here
//   DEADLINE_EXCEEDED   `timeout` is over; the message says what the last attempt failed with
//   UNAVAILABLE         fail_fast and no server; the message names target and reason
//   CANCELLED           PendingCall::Cancel, or the Client is being destroyed
//   INVALID_ARGUMENT    a timeout that is not positive; a tensor set in AttendRequest::options; a request over 2 GiB
//   INTERNAL            an answer that is no AttendResponse
class Client {
 public:
  using AttendCallback = std::function<void(absl::StatusOr<AttendResult>)>;

  // Connects at the first call. INVALID_ARGUMENT for a target that gRPC cannot parse, and for a file of
  // SecurityOptions that cannot be read or used.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ClientOptions& options = {});

  // Cancels what is in flight and waits for the callbacks. Not to be called from one.
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Computes attention and waits for the result.
  absl::StatusOr<AttendResult> Attend(const AttendRequest& request, const CallOptions& call = {});

  // The same without waiting. `done` is called exactly once, on a thread of gRPC's (or on this one, before AttendAsync
  // returns, for INVALID_ARGUMENT): it must not block, and may start further calls. The request itself need not
  // outlive AttendAsync, only the memory of its tensors must.
  PendingCall AttendAsync(const AttendRequest& request, const CallOptions& call, AttendCallback done);

  // What the server is and can do.
  absl::StatusOr<attend::v1::GetServerInfoResponse> GetServerInfo(const CallOptions& call = {});

  // The health of `service` ("": the server as a whole).
  absl::StatusOr<Health> CheckHealth(const std::string& service = "", const CallOptions& call = {});

  const std::string& target() const;

 private:
  class Channel;
  explicit Client(std::unique_ptr<Channel> channel);
  std::unique_ptr<Channel> channel_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ATTEND_CLIENT_H_
