#include "server/attend_codec.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/violation.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/repeated_field.h"
#include "proto/wire/split_message.h"
#include "proto/wire/unknown_content.h"
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

core::Layout ReadLayout(v1::Layout layout) {
  if (layout == v1::LAYOUT_BNHD) return core::Layout::kBNHD;
  if (layout == v1::LAYOUT_THD) return core::Layout::kTHD;
  return core::Layout::kBHND;
}

core::CausalAlignment ReadCausal(v1::CausalAlignment causal) {
  if (causal == v1::CAUSAL_ALIGNMENT_TOP_LEFT) return core::CausalAlignment::kTopLeft;
  if (causal == v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT) return core::CausalAlignment::kBottomRight;
  return core::CausalAlignment::kNone;
}

core::ScoreStage ReadStage(v1::ScoreStage stage) {
  if (stage == v1::SCORE_STAGE_SCALED) return core::ScoreStage::kScaled;
  if (stage == v1::SCORE_STAGE_SOFTCAPPED) return core::ScoreStage::kSoftcapped;
  if (stage == v1::SCORE_STAGE_MASKED) return core::ScoreStage::kMasked;
  return core::ScoreStage::kNone;
}

template <typename T>
std::vector<T> ToVector(const google::protobuf::RepeatedField<T>& field) {
  return {field.begin(), field.end()};
}

absl::StatusOr<core::AttentionOptions> ReadOptions(const v1::AttentionOptions& options, v1::DataType input_type) {
  core::AttentionOptions result;
  result.layout = ReadLayout(options.layout());
  if (options.has_scale()) result.scale = options.scale();
  result.softcap = options.softcap();
  result.causal = ReadCausal(options.causal());
  result.query_offset = ToVector(options.query_offset());
  if (options.has_window_left()) result.window_left = options.window_left();
  if (options.has_window_right()) result.window_right = options.window_right();
  result.key_lengths = ToVector(options.key_lengths());
  result.query_starts = ToVector(options.query_starts());
  result.key_starts = ToVector(options.key_starts());
  result.alibi_slopes = ToVector(options.alibi_slopes());
  result.sinks = ToVector(options.sinks());
  if (options.compute_type() == v1::COMPUTE_TYPE_BF16) result.compute_type = core::ComputeType::kBFloat16;
  if (options.output_type() != v1::DATA_TYPE_UNSPECIFIED) {
    if (options.output_type() != input_type && options.output_type() != v1::DATA_TYPE_FLOAT32) {
      return core::InvalidArgument({.field = "options.output_type",
                                    .reason = "OUTPUT_TYPE_MISMATCH",
                                    .value = v1::DataType_Name(options.output_type()),
                                    .limit = "the type of query, or DATA_TYPE_FLOAT32"});
    }
    result.output_type = ToElementType(options.output_type());
  }
  if (absl::Status status = ReadBroadcastTensors(options, result); !status.ok()) return status;
  return result;
}

core::ResultSelection ReadResults(const v1::ResultSelection& results) {
  return {.weights = results.weights(),
          .weight_query_rows = ToVector(results.weight_query_rows()),
          .average_weights_over_heads = results.average_weights_over_heads(),
          .scores = ReadStage(results.scores()),
          .logsumexp = results.logsumexp(),
          .omit_output = results.omit_output()};
}

absl::StatusOr<core::AttentionProblem> ReadProblem(const v1::AttendRequest& request) {
  const core::Layout layout = ReadLayout(request.options().layout());
  const absl::StatusOr<TensorShapes> shapes = ReadTensorShapes(request, layout);
  if (!shapes.ok()) return shapes.status();
  absl::StatusOr<core::AttentionOptions> options = ReadOptions(request.options(), request.query().data_type());
  if (!options.ok()) return options.status();
  auto problem =
      core::AttentionProblem::Create(shapes->shape, shapes->type, *std::move(options), ReadResults(request.results()));
  if (!problem.ok()) return InWireTerms(problem.status(), layout);
  return problem;
}

// Names the largest of what the response holds.
absl::Status CheckResponseSize(const core::AttentionProblem& problem, int64_t max_message_bytes) {
  const int64_t bytes = PredictResponseBytes(problem);
  if (bytes <= max_message_bytes) return absl::OkStatus();
  struct Result {
    absl::string_view field;
    absl::string_view name;
    int64_t bytes;
  };
  const std::array<Result, 4> results = {{{"query.shape", "output", problem.OutputBytes()},
                                          {"results.weights", "weights", problem.WeightsBytes()},
                                          {"results.scores", "scores", problem.ScoresBytes()},
                                          {"results.logsumexp", "logsumexp", problem.LogsumexpBytes()}}};
  const Result& largest = *std::max_element(results.begin(), results.end(),
                                            [](const Result& a, const Result& b) { return a.bytes < b.bytes; });
  const core::Violation violation = {.field = std::string(largest.field),
                                     .reason = "RESPONSE_TOO_LARGE",
                                     .value = absl::StrCat(bytes),
                                     .limit = absl::StrCat(max_message_bytes)};
  return core::InvalidArgument(
      violation, absl::StrCat(violation.field, ": the response would have ", bytes, " bytes (", largest.name, " ",
                              largest.bytes, "), must have at most ", max_message_bytes, " (max_message_bytes)"));
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
       }) {
    if (!check.ok()) return check;
  }
  absl::StatusOr<core::AttentionProblem> problem = ReadProblem(request);
  if (!problem.ok()) return problem.status();
  const TensorByteCounts bytes = {parts.query.size(), parts.key.size(), parts.value.size(), parts.mask.size(),
                                  parts.bias.size()};
  if (absl::Status status = CheckTensorsAgree(request, bytes, *problem); !status.ok()) return status;
  if (absl::Status status = CheckResponseSize(*problem, limits.max_message_bytes); !status.ok()) return status;
  return DecodedRequest{
      .problem = *std::move(problem),
      .tensors = {std::move(parts.query), std::move(parts.key), std::move(parts.value), std::move(parts.mask),
                  std::move(parts.bias)},
      .reject_non_finite = request.options().reject_non_finite(),
      .priority = request.priority() == 0 ? kDefaultPriority : request.priority(),
      .request_id = request.request_id(),
  };
}

std::vector<std::string> SupportedOptions() {
  std::vector<std::string> names;
  for (const auto* message : {v1::AttentionOptions::descriptor(), v1::ResultSelection::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) names.push_back(message->field(i)->name());
  }
  return names;
}

}  // namespace attend::server
