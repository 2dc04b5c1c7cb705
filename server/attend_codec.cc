#include "server/attend_codec.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/violation.h"
#include "proto/wire/split_message.h"
#include "proto/wire/unknown_content.h"
#include "server/option_support.h"
#include "server/response_writer.h"
#include "server/status_details.h"
#include "server/tensor_codec.h"

namespace attend::server {
namespace {

constexpr int kDefaultPriority = 5;
constexpr int kLowestPriority = 9;

absl::Status RefuseField(const wire::UnknownField& unknown, absl::string_view version) {
  const std::string number = absl::StrCat(unknown.number);
  const bool at_top = unknown.message.empty();
  const core::Violation violation = {.field = at_top ? number : absl::StrCat(unknown.message, ".", number),
                                     .reason = "UNKNOWN_FIELD",
                                     .value = number,
                                     .limit = absl::StrCat("the fields of attend ", version)};
  return StatusWithViolation(
      absl::StatusCode::kUnimplemented, violation,
      absl::StrCat(at_top ? "the request" : unknown.message, " has field number ", number,
                   ", which this server, attend ", version, ", does not know, or knows with another wire type"));
}

absl::Status CheckNothingUnknown(const v1::AttendRequest& request, absl::string_view version) {
  const wire::UnknownContent unknown = wire::FindUnknownContent(request);
  if (const auto* field = std::get_if<wire::UnknownField>(&unknown)) return RefuseField(*field, version);
  const auto* value = std::get_if<wire::UnknownEnumValue>(&unknown);
  if (value == nullptr) return absl::OkStatus();
  return core::InvalidArgument({.field = value->field,
                                .reason = "UNKNOWN_ENUM_NUMBER",
                                .value = absl::StrCat(value->number),
                                .limit = absl::StrCat("one of ", value->names)});
}

absl::Status CheckPriority(int priority) {
  if (priority >= 0 && priority <= kLowestPriority) return absl::OkStatus();
  return core::InvalidArgument({.field = "priority",
                                .reason = "PRIORITY_OUT_OF_RANGE",
                                .value = absl::StrCat(priority),
                                .limit = absl::StrCat("in [0, ", kLowestPriority, "]")});
}

core::AttentionOptions ReadOptions(const v1::AttentionOptions& options) {
  core::AttentionOptions result;
  if (options.layout() == v1::LAYOUT_BNHD) result.layout = core::Layout::kBNHD;
  if (options.has_scale()) result.scale = options.scale();
  if (options.causal() == v1::CAUSAL_ALIGNMENT_TOP_LEFT) result.causal = core::CausalAlignment::kTopLeft;
  if (options.causal() == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT) result.causal = core::CausalAlignment::kBottomRight;
  result.key_lengths.assign(options.key_lengths().begin(), options.key_lengths().end());
  return result;
}

absl::StatusOr<core::AttentionProblem> ReadProblem(const v1::AttendRequest& request) {
  core::AttentionOptions options = ReadOptions(request.options());
  const core::Layout layout = options.layout;
  const absl::StatusOr<TensorShapes> shapes = ReadTensorShapes(request, layout);
  if (!shapes.ok()) return shapes.status();
  const core::ResultSelection results = {.weights = request.results().weights(),
                                         .logsumexp = request.results().logsumexp()};
  auto problem = core::AttentionProblem::Create(shapes->shape, shapes->type, std::move(options), results);
  if (!problem.ok()) return InWireTerms(problem.status(), layout);
  return problem;
}

// Names the largest of what the response holds.
absl::Status CheckResponseSize(const core::AttentionProblem& problem, int64_t max_message_bytes) {
  const int64_t bytes = PredictResponseBytes(problem);
  if (bytes <= max_message_bytes) return absl::OkStatus();
  const bool weights = problem.WeightsBytes() > problem.OutputBytes();
  const core::Violation violation = {.field = weights ? "results.weights" : "query.shape",
                                     .reason = "RESPONSE_TOO_LARGE",
                                     .value = absl::StrCat(bytes),
                                     .limit = absl::StrCat(max_message_bytes)};
  return core::InvalidArgument(
      violation,
      absl::StrCat(violation.field, ": the response would have ", bytes, " bytes (", weights ? "weights " : "output ",
                   weights ? problem.WeightsBytes() : problem.OutputBytes(), "), must have at most ", max_message_bytes,
                   " (max_message_bytes)"));
}

}  // namespace

absl::StatusOr<wire::AttendRequestParts> ReadAttendRequest(const grpc::ByteBuffer& bytes) {
  auto parts = wire::SplitAttendRequest(bytes);
  if (parts.ok()) return parts;
  const std::string length = absl::StrCat(bytes.Valid() ? bytes.Length() : 0, " bytes");
  core::Violation violation = {
      .field = "", .reason = "MALFORMED_MESSAGE", .value = length, .limit = "an AttendRequest"};
  if (absl::IsResourceExhausted(parts.status())) {
    violation.reason = "FIELDS_TOO_LARGE";
    violation.limit = absl::StrCat(wire::kMaxSmallBytes, " bytes besides tensor data");
  }
  return core::InvalidArgument(violation, parts.status().message());
}

absl::Status CheckRequestId(absl::string_view request_id) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return core::InvalidArgument({.field = "request_id",
                                  .reason = "REQUEST_ID_TOO_LONG",
                                  .value = absl::StrCat(request_id.size(), " bytes long"),
                                  .limit = absl::StrCat("at most ", kMaxRequestIdBytes)});
  }
  const auto* const bad = std::find_if_not(request_id.begin(), request_id.end(),
                                           [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); });
  if (bad == request_id.end()) return absl::OkStatus();
  const std::string value =
      absl::StrFormat("byte 0x%02x at %d", static_cast<unsigned char>(*bad), bad - request_id.begin());
  return core::InvalidArgument(
      {.field = "request_id", .reason = "REQUEST_ID_NOT_PRINTABLE", .value = value, .limit = "printable ASCII"},
      absl::StrCat("request_id has ", value, ", must be printable ASCII"));
}

absl::StatusOr<DecodedRequest> DecodeAttendRequest(wire::AttendRequestParts parts, const CodecLimits& limits) {
  const v1::AttendRequest& request = parts.message;
  for (const auto& check : {
           CheckRequestId(request.request_id()),
           CheckNothingUnknown(request, limits.version),
           CheckPriority(request.priority()),
           CheckOptionSupport(request, limits.version),
       }) {
    if (!check.ok()) return check;
  }
  absl::StatusOr<core::AttentionProblem> problem = ReadProblem(request);
  if (!problem.ok()) return problem.status();
  const TensorByteCounts bytes = {parts.query.size(), parts.key.size(), parts.value.size()};
  if (absl::Status status = CheckTensorsAgree(request, bytes, *problem); !status.ok()) return status;
  if (absl::Status status = CheckResponseSize(*problem, limits.max_message_bytes); !status.ok()) return status;
  return DecodedRequest{
      .problem = *std::move(problem),
      .tensors = {std::move(parts.query), std::move(parts.key), std::move(parts.value)},
      .priority = request.priority() == 0 ? kDefaultPriority : request.priority(),
      .request_id = request.request_id(),
  };
}

}  // namespace attend::server
