#include "server/attend_reactor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/violation.h"
#include "server/grpc_listener.h"
#include "server/status_details.h"

namespace attend::server {
namespace {

constexpr char kSizeMetadata[] = "attend-message-bytes";
constexpr char kTraceMetadata[] = "traceparent";
constexpr char kRequestIdTrailer[] = "attend-request-id";
constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";
constexpr size_t kMaxTraceBytes = 64;  // of a traceparent: 55 by its specification

// Where no size is announced and no timeout set.
constexpr absl::Duration kReceiveTimeout = absl::Seconds(60);
// Where a size is announced: so much, and so much more for each MiB.
constexpr absl::Duration kAnnouncedTimeout = absl::Seconds(10);
constexpr absl::Duration kAnnouncedTimeoutPerMiB = absl::Seconds(1);

// By how much a caller's deadline is ahead of the one that is counted from its headers here.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(20);

std::optional<absl::string_view> FindMetadata(const grpc::ServerContextBase& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return std::nullopt;
  return absl::string_view(found->second.data(), found->second.size());
}

// Digits and nothing else: SimpleAtoi alone would take signs and spaces as well.
bool ParseDecimal(absl::string_view text, int64_t& number) {
  return std::all_of(text.begin(), text.end(), &absl::ascii_isdigit) && absl::SimpleAtoi(text, &number);
}

absl::Time FromGrpcDeadline(std::chrono::system_clock::time_point deadline) {
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture() : absl::FromChrono(deadline);
}

absl::Status TooLarge(int64_t bytes, int64_t limit) {
  return StatusWithViolation(
      absl::StatusCode::kResourceExhausted,
      {.field = "", .reason = "MESSAGE_TOO_LARGE", .value = absl::StrCat(bytes), .limit = absl::StrCat(limit)},
      absl::StrCat("the message is ", bytes, " bytes long, must be at most max_message_bytes, ", limit));
}

absl::Status Malformed(const std::string& value, const std::string& limit, absl::string_view message) {
  return core::InvalidArgument({.field = kSizeMetadata, .reason = "MALFORMED_MESSAGE", .value = value, .limit = limit},
                               message);
}

// Why a request whose message was read is refused rather than failed, if it is.
std::optional<RejectReason> RejectionOf(const AttendWork::Outcome& outcome) {
  if (SuggestedRetryDelay(outcome.status)) return RejectReason::kQueueFull;
  if (absl::IsDeadlineExceeded(outcome.status) && outcome.stage == CallStage::kQueued) return RejectReason::kDeadline;
  const std::optional<core::Violation> violation = core::GetViolation(outcome.status);
  if (violation && (violation->reason == "MEMORY_BUDGET_EXCEEDED" || violation->reason == "RESPONSE_TOO_LARGE")) {
    return RejectReason::kNeverAdmissible;
  }
  return std::nullopt;
}

}  // namespace

grpc::ServerGenericBidiReactor* AttendReactor::Start(const AttendBackend& backend,
                                                     grpc::GenericCallbackServerContext* context,
                                                     std::string request_id) {
  // Shared: whatever will call it holds it, and gRPC does until OnDone.
  const std::shared_ptr<AttendReactor> reactor(new AttendReactor(backend, context, std::move(request_id)));
  reactor->self_ = reactor;
  if (absl::Status status = reactor->CheckHeaders(); status.ok()) reactor->EnterGate();
  return reactor.get();
}

AttendReactor::AttendReactor(const AttendBackend& backend, grpc::GenericCallbackServerContext* context,
                             std::string request_id)
    : backend_(backend),
      context_(context),
      headers_(backend.clock.Now()),
      last_byte_(headers_),
      deadline_(FromGrpcDeadline(context->deadline())) {
  record_.id = std::move(request_id);
  record_.method = "Attend";
  record_.peer = context->peer();
  backend_.connections.BeginCall(record_.peer);
  record_.traceparent = std::string(FindMetadata(*context, kTraceMetadata).value_or("").substr(0, kMaxTraceBytes));
}

absl::Status AttendReactor::CheckHeaders() {
  const auto refuse = [this](RejectReason reason, absl::Status status) {
    Refuse(reason, status, headers_, Stage::kGate);
    return status;
  };
  absl::StatusOr<std::string> client = backend_.security.Identify(*context_);
  if (!client.ok()) return refuse(RejectReason::kUnauthenticated, client.status());
  record_.client = *std::move(client);
  entered_ = backend_.calls.Enter();
  if (!entered_) return refuse(RejectReason::kDraining, absl::UnavailableError("the server is shutting down"));
  if (headers_ >= deadline_) {
    return refuse(RejectReason::kDeadline, absl::DeadlineExceededError("the deadline had passed on arrival"));
  }
  if (absl::Status room = backend_.backlog.CheckRoom(); !room.ok()) return refuse(RejectReason::kQueueFull, room);
  const std::optional<absl::string_view> announced = FindMetadata(*context_, kSizeMetadata);
  if (!announced) return absl::OkStatus();
  int64_t bytes = 0;
  if (!ParseDecimal(*announced, bytes)) {
    const absl::Status status = Malformed(std::string(announced->substr(0, kMaxTraceBytes)), "a decimal number",
                                          "attend-message-bytes must be a decimal number");
    if (Claim(Stage::kGate)) SendStatus(status);
    return status;
  }
  announced_bytes_ = bytes;
  const int64_t limit = backend_.settings.max_message_bytes;
  return bytes <= limit ? absl::OkStatus() : refuse(RejectReason::kMessageTooLarge, TooLarge(bytes, limit));
}

void AttendReactor::EnterGate() {
  const absl::StatusOr<ReceiveGate::Entry> entry =
      backend_.gate.Enter(visit_, record_.client, announced_bytes_, [self = self_] { self->BeginRead(); });
  if (!entry.ok()) return Refuse(RejectReason::kQueueFull, entry.status(), headers_, Stage::kGate);
  if (*entry == ReceiveGate::Entry::kLetIn) BeginRead();
}

void AttendReactor::BeginRead() {
  const absl::Duration timeout = ReceiveTimeout();
  // Under the lock, because after a Finish the call may be gone: StartRead runs no reaction before it returns.
  std::lock_guard<std::mutex> lock(mutex_);
  if (stage_ != Stage::kGate) return;
  stage_ = Stage::kReceiving;
  // Of an unannounced one gRPC reads as much as its quota permits.
  expected_bytes_ = announced_bytes_.value_or(backend_.settings.receive_budget + GrpcListener::kQuotaBesidesMessages);
  backend_.connections.BeginMessage(record_.peer, expected_bytes_);
  receive_deadline_ =
      backend_.deadlines.Add(absl::Now() + timeout, [self = self_, timeout] { self->ReceiveExpired(timeout); });
  StartRead(&message_);
}

absl::Duration AttendReactor::ReceiveTimeout() const {
  if (backend_.settings.receive_timeout) return *backend_.settings.receive_timeout;
  if (!announced_bytes_) return kReceiveTimeout;
  return kAnnouncedTimeout + kAnnouncedTimeoutPerMiB * (static_cast<double>(*announced_bytes_) / 0x1p20);
}

void AttendReactor::ReceiveExpired(absl::Duration timeout) {
  if (!Claim(Stage::kReceiving)) return;
  backend_.metrics.CountRejected(RejectReason::kReceiveTimeout);
  SendStatus(absl::DeadlineExceededError(absl::StrCat("the message did not arrive within receive_timeout, ",
                                                      absl::FormatDuration(timeout), " from when reading began")));
}

void AttendReactor::OnReadDone(bool ok) {
  backend_.deadlines.Remove(receive_deadline_);
  backend_.connections.EndMessage(record_.peer, expected_bytes_,
                                  ok ? static_cast<int64_t>(message_.Length()) : expected_bytes_);
  last_byte_ = backend_.clock.Now();
  record_.receive = last_byte_ - headers_;
  if (!ok) {
    // The client closed its side without a message, or the call is broken.
    if (context_->IsCancelled()) return OnCancel();
    if (Claim(Stage::kReceiving)) SendStatus(Malformed("0", "1", "the call has no message"));
    return;
  }
  record_.request_bytes = static_cast<int64_t>(message_.Length());
  const int64_t limit = backend_.settings.max_message_bytes;
  if (record_.request_bytes > limit) {
    return Refuse(RejectReason::kMessageTooLarge, TooLarge(record_.request_bytes, limit), last_byte_,
                  Stage::kReceiving);
  }
  if (announced_bytes_ && record_.request_bytes > *announced_bytes_) {
    if (!Claim(Stage::kReceiving)) return;
    return SendStatus(Malformed(absl::StrCat(record_.request_bytes), absl::StrCat(*announced_bytes_),
                                absl::StrCat("the message is ", record_.request_bytes,
                                             " bytes long, attend-message-bytes announced ", *announced_bytes_)));
  }
  BeginWork();
}

void AttendReactor::BeginWork() {
  std::shared_ptr<AttendWork> work =
      AttendWork::Create(backend_,
                         {.message = std::exchange(message_, {}),
                          .client = record_.client,
                          .request_id = record_.id,
                          .deadline = deadline_,
                          .last_byte = last_byte_,
                          .receive = record_.receive},
                         {.gathered = [self = self_] { self->visit_.Leave(); },
                          .done = [self = self_](AttendWork::Outcome outcome) { self->WorkDone(std::move(outcome)); }});
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stage_ != Stage::kReceiving) return;
    stage_ = Stage::kWorking;
    work_ = work;
  }
  visit_.Arrived(record_.request_bytes);
  work->Start();
}

void AttendReactor::WorkDone(AttendWork::Outcome outcome) {
  if (!Claim(Stage::kWorking)) return;
  record_.id = outcome.request_id;
  record_.problem = std::move(outcome.problem);
  record_.queue = outcome.timings.queue;
  record_.pack = outcome.timings.pack;
  record_.compute = outcome.timings.compute;
  backend_.metrics.CountMultiplyAdds(outcome.multiply_adds);
  if (outcome.status.ok()) {
    response_.Swap(&outcome.response);
    record_.response_bytes = static_cast<int64_t>(response_.Length());
    backend_.metrics.Observe({.receive = record_.receive,
                              .queue = record_.queue,
                              .compute = record_.pack + record_.compute,
                              .request_bytes = record_.request_bytes,
                              .response_bytes = record_.response_bytes,
                              .query_length = record_.problem->shape().query_length,
                              .key_length = record_.problem->shape().key_length});
    context_->AddTrailingMetadata(kRequestIdTrailer, record_.id);
    return StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  if (const std::optional<RejectReason> reason = RejectionOf(outcome)) {
    backend_.metrics.CountRejected(*reason);
    backend_.metrics.ObserveRefusal(backend_.clock.Now() - last_byte_);
  } else if (absl::IsCancelled(outcome.status) || absl::IsDeadlineExceeded(outcome.status)) {
    backend_.metrics.CountCancelled(outcome.stage);
  }
  SendStatus(outcome.status);
}

void AttendReactor::OnCancel() {
  Stage stage = Stage::kFinished;
  std::shared_ptr<AttendWork> work;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stage = stage_;
    work = work_;
    if (stage != Stage::kWorking) stage_ = Stage::kFinished;
  }
  if (stage == Stage::kWorking) return work->Cancel();
  if (stage == Stage::kFinished) {
    if (record_.status.ok()) backend_.metrics.CountCancelled(CallStage::kSending);
    return;
  }
  if (stage == Stage::kGate) visit_.Leave();
  backend_.connections.CountReset(record_.peer);
  backend_.metrics.CountCancelled(CallStage::kReceiving);
  SendStatus(absl::CancelledError("cancelled by the caller"));
}

void AttendReactor::OnDone() {
  const absl::Time now = backend_.clock.Now();
  record_.total = now - headers_;
  backend_.metrics.CountRequest(Method::kAttend, record_.status.code(), record_.total);
  backend_.request_log.Write(record_, now);
  // What the call held goes before it stops being counted: once no call is in flight every byte is back.
  message_.Clear();
  response_.Clear();
  visit_.Leave();
  if (work_ != nullptr) work_->ReleaseMemory();
  backend_.connections.EndCall(record_.peer, record_.response_bytes);
  if (entered_) backend_.calls.Leave();
  self_.reset();
}

bool AttendReactor::Claim(Stage stage) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stage_ != stage) return false;
  stage_ = Stage::kFinished;
  return true;
}

void AttendReactor::Refuse(RejectReason reason, const absl::Status& status, absl::Time since, Stage stage) {
  if (!Claim(stage)) return;
  backend_.metrics.CountRejected(reason);
  backend_.metrics.ObserveRefusal(backend_.clock.Now() - since);
  SendStatus(status);
}

void AttendReactor::SendStatus(const absl::Status& status) {
  // What ends a call at its deadline is the deadline, whoever noticed first: mostly its caller, who then cancels.
  const bool expired = absl::IsCancelled(status) && backend_.clock.Now() >= deadline_ - kDeadlineSlack;
  record_.status = expired ? absl::DeadlineExceededError("the deadline has passed") : status;
  const std::optional<absl::Duration> retry_delay = SuggestedRetryDelay(status);
  context_->AddTrailingMetadata(kRequestIdTrailer, record_.id);
  if (retry_delay) {
    context_->AddTrailingMetadata(kPushbackTrailer, absl::StrCat(absl::ToInt64Milliseconds(*retry_delay)));
  }
  Finish(ToGrpcStatus(record_.status, {.request_id = record_.id, .retry_delay = retry_delay}));
}

}  // namespace attend::server
