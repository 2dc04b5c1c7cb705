#include "server/attention_service.h"

#include <random>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/attention_problem.h"
#include "core/violation.h"
#include "proto/wire/unknown_content.h"
#include "server/attend_codec.h"
#include "server/attend_reactor.h"
#include "server/status_details.h"
#include "server/tensor_codec.h"
#include "server/version.h"

namespace attend::server {
namespace {

constexpr char kAttendMethod[] = "/attend.v1.AttentionService/Attend";
constexpr char kRequestIdTrailer[] = "attend-request-id";

// A call of a method that is not offered.
class UnknownMethodReactor final : public grpc::ServerGenericBidiReactor {
 public:
  UnknownMethodReactor(const AttendBackend& backend, grpc::GenericCallbackServerContext* context,
                       const std::string& request_id)
      : backend_(backend),
        peer_(context->peer()),
        start_(backend.clock.Now()),
        status_(backend.security.Identify(*context).status()) {
    if (status_.ok()) {
      status_ = absl::UnimplementedError(
          absl::StrCat("attend-server ", absl::string_view(Version()), " offers no method ", context->method()));
    }
    backend.connections.BeginCall(peer_);
    context->AddTrailingMetadata(kRequestIdTrailer, request_id);
    Finish(ToGrpcStatus(status_));
  }

  void OnDone() override {
    backend_.connections.EndCall(peer_);
    backend_.metrics.CountRequest(Method::kOther, status_.code(), backend_.clock.Now() - start_);
    delete this;
  }

 private:
  const AttendBackend& backend_;
  const std::string peer_;
  const absl::Time start_;
  absl::Status status_;
};

absl::Status CheckInfoRequest(grpc::ByteBuffer bytes) {
  const size_t length = bytes.Length();
  v1::GetServerInfoRequest request;
  if (!grpc::SerializationTraits<v1::GetServerInfoRequest>::Deserialize(&bytes, &request).ok()) {
    return core::InvalidArgument({.field = "",
                                  .reason = "MALFORMED_MESSAGE",
                                  .value = absl::StrCat(length, " bytes"),
                                  .limit = "a GetServerInfoRequest"},
                                 "the bytes are not a message of type attend.v1.GetServerInfoRequest");
  }
  const wire::UnknownContent unknown = wire::FindUnknownContent(request);
  const auto* field = std::get_if<wire::UnknownField>(&unknown);
  if (field == nullptr) return absl::OkStatus();
  const std::string number = absl::StrCat(field->number);
  return StatusWithViolation(
      absl::StatusCode::kUnimplemented,
      {.field = number, .reason = "UNKNOWN_FIELD", .value = number, .limit = "no fields"},
      absl::StrCat("the request has field number ", number, ", which attend-server ", absl::string_view(Version()),
                   " does not know: a GetServerInfoRequest has no fields"));
}

}  // namespace

grpc::ServerUnaryReactor* AttentionService::GetServerInfo(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  const absl::Time start = backend_.clock.Now();
  backend_.connections.CountCall(context->peer());
  absl::Status status = backend_.security.Identify(*context).status();
  if (!status.ok()) {
    // nothing more is said to this caller
  } else if (backend_.calls.Enter()) {
    status = CheckInfoRequest(*request);
    const grpc::Slice answer(status.ok() ? answer_.SerializeAsString() : std::string());
    *response = grpc::ByteBuffer(&answer, 1);
    backend_.calls.Leave();
  } else {
    status = absl::UnavailableError("the server is shutting down");
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  backend_.metrics.CountRequest(Method::kGetServerInfo, status.code(), backend_.clock.Now() - start);
  return reactor;
}

GenericService::GenericService(const AttendBackend& backend)
    : backend_(backend), request_id_prefix_(std::random_device()()) {}

std::string GenericService::NextRequestId() {
  return absl::StrCat(absl::Hex(request_id_prefix_, absl::kZeroPad8),
                      absl::Hex(next_request_id_.fetch_add(1, std::memory_order_relaxed), absl::kZeroPad8));
}

grpc::ServerGenericBidiReactor* GenericService::CreateReactor(grpc::GenericCallbackServerContext* context) {
  if (context->method() == kAttendMethod) return AttendReactor::Start(backend_, context, NextRequestId());
  return new UnknownMethodReactor(backend_, context, NextRequestId());
}

v1::GetServerInfoResponse DescribeServer(const AttendBackend& backend, double multiply_adds_per_second) {
  v1::GetServerInfoResponse answer;
  answer.set_version(std::string(Version()));
  answer.set_onednn_version(core::TileKernels::OneDnnVersion());
  answer.set_instruction_set(std::string(core::InstructionSetName(backend.kernels.instruction_set())));
  for (const core::ElementType type : backend.kernels.native_types()) answer.add_native_types(ToDataType(type));
  answer.set_compute_threads(backend.pool.workers());
  answer.set_memory_budget_bytes(backend.settings.memory_budget);
  answer.set_max_message_bytes(backend.settings.max_message_bytes);
  answer.set_max_head_dim(core::kMaxHeadDim);
  for (std::string& option : SupportedOptions()) answer.add_supported_options(std::move(option));
  answer.add_front_ends("attend.v1");
  answer.set_multiply_adds_per_second(multiply_adds_per_second);
  return answer;
}

}  // namespace attend::server
