#include "client/error_details.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "attend/client/v1/error_details.pb.h"
#include "client/status_payload.h"
#include "google/protobuf/any.pb.h"

namespace attend::client {
namespace {

constexpr char kDetails[] = "type.googleapis.com/google.rpc.Status";
constexpr char kRequestId[] = "attend-request-id";

// Any::UnpackTo would insist on the type's own name; ours are google.rpc's messages under names of our own.
template <typename Message>
bool Unpack(const google::protobuf::Any& detail, absl::string_view google_name, Message& message) {
  return absl::EndsWith(absl::string_view(detail.type_url()), google_name) && message.ParseFromString(detail.value());
}

std::string Find(const google::protobuf::Map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

void Read(const google::protobuf::Any& detail, ErrorDetails& details) {
  attend::client::v1::BadRequest bad_request;
  attend::client::v1::ErrorInfo reason;
  attend::client::v1::RetryInfo retry;
  if (Unpack(detail, "/google.rpc.BadRequest", bad_request) && bad_request.field_violations_size() > 0) {
    details.field = bad_request.field_violations(0).field();
  } else if (Unpack(detail, "/google.rpc.ErrorInfo", reason)) {
    details.reason = reason.reason();
    details.value = Find(reason.metadata(), "value");
    details.limit = Find(reason.metadata(), "limit");
  } else if (Unpack(detail, "/google.rpc.RetryInfo", retry)) {
    details.retry_delay = absl::Seconds(retry.retry_delay().seconds()) + absl::Nanoseconds(retry.retry_delay().nanos());
  }
}

// Details that cannot be parsed, or are of other types, are passed over: they must never hide the status itself.
ErrorDetails Decode(const std::string& bytes) {
  ErrorDetails details;
  attend::client::v1::Status status;
  if (!status.ParseFromString(bytes)) return details;
  for (const google::protobuf::Any& detail : status.details()) Read(detail, details);
  return details;
}

}  // namespace

std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status) {
  const absl::optional<absl::Cord> bytes = status.GetPayload(kDetails);
  const absl::optional<absl::Cord> request_id = status.GetPayload(kRequestId);
  if (!bytes && !request_id) return std::nullopt;
  ErrorDetails details;
  if (bytes) details = Decode(std::string(*bytes));
  if (request_id) details.request_id = std::string(*request_id);
  return details;
}

void AttachDetails(const AttemptOutcome& outcome, absl::Status& status) {
  if (!outcome.details.empty()) status.SetPayload(kDetails, absl::Cord(outcome.details));
  if (!outcome.request_id.empty()) status.SetPayload(kRequestId, absl::Cord(outcome.request_id));
}

std::optional<absl::Duration> DecodeRetryDelay(const std::string& details) { return Decode(details).retry_delay; }

}  // namespace attend::client
