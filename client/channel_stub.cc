#include "client/channel_stub.h"

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/channel_security.h"

namespace attend::client {
namespace {

// What one attempt needs until it is over.
struct Attempt {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  std::function<void(AttemptOutcome)> done;
};

std::optional<std::string> FindTrailer(const grpc::ClientContext& context, const char* name) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(name);
  if (found == trailers.end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

AttemptOutcome Outcome(const grpc::Status& status, Attempt& attempt) {
  AttemptOutcome outcome;
  outcome.status = absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  outcome.details = status.error_details();
  outcome.request_id = FindTrailer(attempt.context, "attend-request-id").value_or("");
  outcome.retry_pushback = FindTrailer(attempt.context, "grpc-retry-pushback-ms");
  if (status.ok()) outcome.response.Swap(&attempt.response);
  return outcome;
}

grpc::ChannelArguments Arguments(const SecurityOptions& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetUserAgentPrefix("attend-client");
  // Retries are ours: gRPC's stop after five attempts and never repeat a call of more than 256 KiB.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Connections are not shared with other channels of the process: two clients are two connections.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy of the environment, meant for the web, would take calls even to 127.0.0.1.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A server that was restarted is found again soon; by default gRPC waits up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // A connection whose other end vanished without a word is noticed while calls wait on it.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  if (!security.tls_server_name.empty()) arguments.SetSslTargetNameOverride(security.tls_server_name);
  return arguments;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChannelStub>> ChannelStub::Create(const ClientOptions& options) {
  const std::string& target = options.target;
  // gRPC would look for the whole list in each certificate.
  if (options.security.tls() && options.security.tls_server_name.empty() && absl::StrContains(target, ',')) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", target,
                     "' names several servers: with TLS, tls_server_name must be set, the name that their "
                     "certificates have in common"));
  }
  const absl::StatusOr<ChannelSecurity> security = ChannelSecurity::Read(options.security);
  if (!security.ok()) return security.status();
  const std::shared_ptr<grpc::Channel> channel =
      target.empty() ? nullptr : grpc::CreateCustomChannel(target, security->credentials, Arguments(options.security));
  // gRPC reports a target that it cannot parse by a channel whose calls all fail; a sound one starts idle.
  if (channel == nullptr || channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_IDLE) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", target, "' is no address, must be host:port, unix:/path or another gRPC target"));
  }
  return std::unique_ptr<ChannelStub>(new ChannelStub(channel, security->token));
}

ChannelStub::ChannelStub(std::shared_ptr<grpc::Channel> channel, const std::string& token)
    : authorization_(token.empty() ? "" : absl::StrCat("Bearer ", token)),
      channel_(std::move(channel)),
      stub_(channel_) {}

std::function<void()> ChannelStub::Start(CallAttempt attempt, std::function<void(AttemptOutcome)> done) {
  auto state = std::make_shared<Attempt>();
  state->request.Swap(&attempt.request);
  state->done = std::move(done);
  for (const auto& [name, value] : attempt.metadata) state->context.AddMetadata(name, value);
  if (!authorization_.empty()) state->context.AddMetadata("authorization", authorization_);
  state->context.set_deadline(gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(absl::ToInt64Nanoseconds(attempt.timeout), GPR_TIMESPAN)));
  // The call owns this function and this function the call's state: running it, exactly once, breaks the ring. The
  // state is gone before `done` is called: it holds on to the channel, whose last holder must not be a thread of
  // gRPC's.
  stub_.UnaryCall(&state->context, attempt.method, grpc::StubOptions(), &state->request, &state->response,
                  [state](const grpc::Status& status) mutable {
                    const std::function<void(AttemptOutcome)> last = std::move(state->done);
                    AttemptOutcome outcome = Outcome(status, *state);
                    state.reset();
                    last(std::move(outcome));
                  });
  return [weak = std::weak_ptr<Attempt>(state)] {
    if (const std::shared_ptr<Attempt> running = weak.lock()) running->context.TryCancel();
  };
}

Connectivity ChannelStub::connectivity() const {
  switch (channel_->GetState(/*try_to_connect=*/false)) {
    case GRPC_CHANNEL_READY:
      return Connectivity::kReady;
    case GRPC_CHANNEL_TRANSIENT_FAILURE:
    case GRPC_CHANNEL_SHUTDOWN:
      return Connectivity::kUnreachable;
    default:
      return Connectivity::kConnecting;
  }
}

}  // namespace attend::client
