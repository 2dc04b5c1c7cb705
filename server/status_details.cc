#include "server/status_details.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace attend::server {
namespace {

static_assert(static_cast<int>(absl::StatusCode::kOk) == grpc::OK);
static_assert(static_cast<int>(absl::StatusCode::kCancelled) == grpc::CANCELLED);
static_assert(static_cast<int>(absl::StatusCode::kUnknown) == grpc::UNKNOWN);
static_assert(static_cast<int>(absl::StatusCode::kInvalidArgument) == grpc::INVALID_ARGUMENT);
static_assert(static_cast<int>(absl::StatusCode::kDeadlineExceeded) == grpc::DEADLINE_EXCEEDED);
static_assert(static_cast<int>(absl::StatusCode::kNotFound) == grpc::NOT_FOUND);
static_assert(static_cast<int>(absl::StatusCode::kAlreadyExists) == grpc::ALREADY_EXISTS);
static_assert(static_cast<int>(absl::StatusCode::kPermissionDenied) == grpc::PERMISSION_DENIED);
static_assert(static_cast<int>(absl::StatusCode::kResourceExhausted) == grpc::RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(absl::StatusCode::kFailedPrecondition) == grpc::FAILED_PRECONDITION);
static_assert(static_cast<int>(absl::StatusCode::kAborted) == grpc::ABORTED);
static_assert(static_cast<int>(absl::StatusCode::kOutOfRange) == grpc::OUT_OF_RANGE);
static_assert(static_cast<int>(absl::StatusCode::kUnimplemented) == grpc::UNIMPLEMENTED);
static_assert(static_cast<int>(absl::StatusCode::kInternal) == grpc::INTERNAL);
static_assert(static_cast<int>(absl::StatusCode::kUnavailable) == grpc::UNAVAILABLE);
static_assert(static_cast<int>(absl::StatusCode::kDataLoss) == grpc::DATA_LOSS);
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) == grpc::UNAUTHENTICATED);

// Together with type URLs and tags these stay under 2 KiB: the message and the description are the same text.
constexpr size_t kMaxMessageBytes = 512;
constexpr size_t kMaxFieldBytes = 128;
constexpr size_t kMaxReasonBytes = 63;  // google.rpc.ErrorInfo's own limit
constexpr size_t kMaxMetadataBytes = 160;

// `text` in printable ASCII, which is valid UTF-8, and no longer than `max_bytes`. Texts of ours are ASCII anyway; what
// comes from a request may be anything.
std::string Presentable(absl::string_view text, size_t max_bytes) {
  constexpr absl::string_view kEllipsis = "...";
  const bool fits = text.size() <= max_bytes;
  std::string result(fits ? text : text.substr(0, max_bytes - kEllipsis.size()));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return fits ? result : absl::StrCat(result, kEllipsis);
}

bool IsOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

std::string MessageFor(const absl::Status& status, absl::string_view request_id) {
  if (!IsOurFault(status.code())) return Presentable(status.message(), kMaxMessageBytes);
  return Presentable(absl::StrCat("an error inside the server; its log has the detail",
                                  request_id.empty() ? "" : ", under request ", request_id),
                     kMaxMessageBytes);
}

void AddViolation(const core::Violation& violation, const std::string& message, google::rpc::Status& status) {
  google::rpc::ErrorInfo reason;
  reason.set_reason(Presentable(violation.reason, kMaxReasonBytes));
  reason.set_domain(std::string(kErrorDomain));
  (*reason.mutable_metadata())["value"] = Presentable(violation.value, kMaxMetadataBytes);
  (*reason.mutable_metadata())["limit"] = Presentable(violation.limit, kMaxMetadataBytes);
  status.add_details()->PackFrom(reason);

  google::rpc::BadRequest bad_request;
  google::rpc::BadRequest::FieldViolation& field = *bad_request.add_field_violations();
  field.set_field(Presentable(violation.field, kMaxFieldBytes));
  field.set_description(message);
  status.add_details()->PackFrom(bad_request);
}

}  // namespace

absl::Status StatusWithViolation(absl::StatusCode code, const core::Violation& violation, absl::string_view message) {
  absl::Status status(code, message);
  core::InvalidArgument(violation, message).ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) {
    status.SetPayload(url, payload);
  });
  return status;
}

grpc::Status ToGrpcStatus(const absl::Status& status, const ErrorContext& context) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = MessageFor(status, context.request_id);
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  std::optional<core::Violation> violation = core::GetViolation(status);
  if (!violation.has_value() && absl::IsInvalidArgument(status)) violation.emplace().reason = "INVALID_REQUEST";
  if (violation.has_value() && !IsOurFault(status.code())) AddViolation(*violation, message, details);
  if (context.retry_delay.has_value()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(std::max(*context.retry_delay, absl::ZeroDuration())));
    details.add_details()->PackFrom(retry);
  }
  const std::string bytes = details.details().empty() ? "" : details.SerializeAsString();
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message, bytes);
}

}  // namespace attend::server
