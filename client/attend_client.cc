#include "client/attend_client.h"

#include <future>
#include <mutex>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "attend/client/v1/health.pb.h"
#include "client/attend_message.h"
#include "client/call_board.h"
#include "client/channel_stub.h"
#include "client/delivery.h"
#include "client/retried_call.h"
#include "client/status_payload.h"

namespace attend::client {
namespace {

// Numbers for the jitter: what they are never matters, only that two clients have different ones.
class Jitter {
 public:
  double operator()() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::uniform_real_distribution<double>(0, 1)(engine_);
  }

 private:
  std::mutex mutex_;
  std::minstd_rand engine_{std::random_device{}()};
};

absl::Status StatusWithDetails(const AttemptOutcome& outcome) {
  absl::Status status = outcome.status;
  AttachDetails(outcome, status);
  return status;
}

absl::StatusOr<AttendResult> ToResult(const CallOutcome& outcome, int64_t request_bytes) {
  if (!outcome.last.status.ok()) return StatusWithDetails(outcome.last);
  absl::StatusOr<AttendResult> result = DecodeAttendResponse(outcome.last.response);
  if (!result.ok()) return result;
  result->attempts = outcome.attempts;
  result->duration = outcome.duration;
  result->request_bytes = request_bytes;
  return result;
}

template <typename Response>
absl::StatusOr<Response> ParseSmall(const CallOutcome& outcome) {
  if (!outcome.last.status.ok()) return StatusWithDetails(outcome.last);
  Response response;
  grpc::Slice bytes;
  if (!outcome.last.response.DumpToSingleSlice(&bytes).ok() ||
      !response.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
    return absl::InternalError(absl::StrCat("the server's answer is no ", response.GetTypeName()));
  }
  return response;
}

// TLS 1.3 has no other way to refuse a client's certificate, and a server of TLS none to tell a client without it.
std::string ClosingCause(const SecurityOptions& security) {
  const char* const wants = !security.tls()             ? "TLS (tls_ca)"
                            : security.tls_cert.empty() ? "a certificate of the client (tls_cert)"
                                                        : "a certificate of another authority (tls_cert)";
  return absl::StrCat("the server may want ", wants, ", or have all the connections that it takes");
}

absl::Status CheckOptions(const CallOptions& options) {
  if (options.timeout > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("timeout is ", absl::FormatDuration(options.timeout), ", must be more than 0"));
}

}  // namespace

absl::string_view HealthName(Health health) {
  switch (health) {
    case Health::kUnknown:
      return "UNKNOWN";
    case Health::kServing:
      return "SERVING";
    case Health::kNotServing:
      return "NOT_SERVING";
    case Health::kServiceUnknown:
      return "SERVICE_UNKNOWN";
  }
  return "";
}

void PendingCall::Cancel() const {
  if (cancel_) cancel_();
}

// What a client keeps behind its interface: the stub and the calls on it.
class Client::Channel {
 public:
  using Done = std::function<void(CallOutcome)>;

  Channel(const ClientOptions& options, std::unique_ptr<Stub> stub)
      : environment_(
            new CallEnvironment{.stub = std::move(stub),
                                .timers = &Timers::Grpc(),
                                .policy = RetryPolicy([jitter = std::make_shared<Jitter>()] { return (*jitter)(); }),
                                .target = options.target,
                                .closing_cause = ClosingCause(options.security)}),
        lent_(environment_.get(), [returned = returned_](const CallEnvironment*) { returned->set_value(); }) {}

  ~Channel() {
    calls_.CancelAll();
    lent_.reset();
    returned_->get_future().wait();
  }

  const std::string& target() const { return environment_->target; }

  // Starts a call whose message is encoded. `done` is called once the call is over and the memory that `delivery`,
  // which may be null, watches over is free.
  std::shared_ptr<RetriedCall> Start(CallAttempt attempt, const CallOptions& options,
                                     std::shared_ptr<Delivery> delivery, Done done) {
    auto call = std::make_shared<RetriedCall>(lent_, std::move(attempt), options);
    const uint64_t id = calls_.Add(call);
    Done last = [this, id, hold = lent_, done = std::move(done)](CallOutcome outcome) {
      calls_.Remove(id);
      done(std::move(outcome));
    };
    call->Start([delivery = std::move(delivery), last = std::move(last)](CallOutcome outcome) {
      if (delivery == nullptr) return last(std::move(outcome));
      delivery->SetOutcome(std::move(outcome), last);
    });
    return call;
  }

  // Starts a call of Attend. `done` gets the outcome and the size of the request.
  absl::StatusOr<std::shared_ptr<RetriedCall>> StartAttend(const AttendRequest& request, const CallOptions& options,
                                                           std::function<void(CallOutcome, int64_t)> done) {
    if (const absl::Status status = CheckOptions(options); !status.ok()) return status;
    const auto delivery = BorrowsMemory(request) ? std::make_shared<Delivery>(*environment_->timers) : nullptr;
    absl::StatusOr<grpc::ByteBuffer> message =
        EncodeAttendRequest(request, delivery != nullptr ? delivery->HoldMemory() : nullptr);
    if (!message.ok()) return message.status();
    const int64_t bytes = static_cast<int64_t>(message->Length());
    CallAttempt attempt = {.method = "/attend.v1.AttentionService/Attend",
                           .metadata = {{"attend-message-bytes", absl::StrCat(bytes)}},
                           .request = *std::move(message)};
    return Start(std::move(attempt), options, delivery,
                 [bytes, done = std::move(done)](CallOutcome outcome) { done(std::move(outcome), bytes); });
  }

  // Makes a call with small messages and waits for its answer.
  template <typename Response>
  absl::StatusOr<Response> CallSmall(const char* method, const google::protobuf::MessageLite& request,
                                     const CallOptions& options) {
    if (const absl::Status status = CheckOptions(options); !status.ok()) return status;
    const grpc::Slice bytes(request.SerializeAsString());
    const auto promise = std::make_shared<std::promise<CallOutcome>>();  // shared: set_value may return after get
    Start({.method = method, .request = grpc::ByteBuffer(&bytes, 1)}, options, /*delivery=*/nullptr,
          [promise](CallOutcome outcome) { promise->set_value(std::move(outcome)); });
    return ParseSmall<Response>(promise->get_future().get());
  }

 private:
  // The environment, with gRPC's channel in it, is destroyed on the thread that destroys the client, after everyone who
  // holds `lent_` has let it go.
  const std::unique_ptr<const CallEnvironment> environment_;
  const std::shared_ptr<std::promise<void>> returned_ =
      std::make_shared<std::promise<void>>();  // shared: see CallSmall
  std::shared_ptr<const CallEnvironment> lent_;
  CallBoard calls_;
};

Client::Client(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<ChannelStub>> stub = ChannelStub::Create(options);
  if (!stub.ok()) return stub.status();
  return std::unique_ptr<Client>(new Client(std::make_unique<Channel>(options, *std::move(stub))));
}

absl::StatusOr<AttendResult> Client::Attend(const AttendRequest& request, const CallOptions& call) {
  const auto promise = std::make_shared<std::promise<std::pair<CallOutcome, int64_t>>>();  // shared: as above
  const auto started = channel_->StartAttend(request, call, [promise](CallOutcome outcome, int64_t request_bytes) {
    promise->set_value({std::move(outcome), request_bytes});
  });
  if (!started.ok()) return started.status();
  // The results are gathered here rather than on one of gRPC's threads.
  const auto [outcome, request_bytes] = promise->get_future().get();
  return ToResult(outcome, request_bytes);
}

// A callback is handed over, as everywhere.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
PendingCall Client::AttendAsync(const AttendRequest& request, const CallOptions& call, AttendCallback done) {
  const auto started = channel_->StartAttend(request, call, [done](const CallOutcome& outcome, int64_t request_bytes) {
    done(ToResult(outcome, request_bytes));
  });
  if (!started.ok()) {
    done(started.status());
    return PendingCall();
  }
  return PendingCall([weak = std::weak_ptr<RetriedCall>(*started)] {
    if (const std::shared_ptr<RetriedCall> running = weak.lock()) running->Cancel();
  });
}

absl::StatusOr<attend::v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& call) {
  return channel_->CallSmall<attend::v1::GetServerInfoResponse>("/attend.v1.AttentionService/GetServerInfo",
                                                                attend::v1::GetServerInfoRequest(), call);
}

absl::StatusOr<Health> Client::CheckHealth(const std::string& service, const CallOptions& call) {
  v1::HealthCheckRequest request;
  request.set_service(service);
  const absl::StatusOr<v1::HealthCheckResponse> response =
      channel_->CallSmall<v1::HealthCheckResponse>("/grpc.health.v1.Health/Check", request, call);
  if (absl::IsNotFound(response.status())) return Health::kServiceUnknown;
  if (!response.ok()) return response.status();
  switch (response->status()) {
    case v1::HealthCheckResponse::SERVING_STATUS_SERVING:
      return Health::kServing;
    case v1::HealthCheckResponse::SERVING_STATUS_NOT_SERVING:
      return Health::kNotServing;
    default:
      return Health::kUnknown;
  }
}

const std::string& Client::target() const { return channel_->target(); }

}  // namespace attend::client
