// How nothing is ignored: every field of the two messages that is set, found by reflection, is either on the list of
// supported ones or goes through an exception below or is refused. A field that a later version of the contract adds is
// refused until somebody puts it on the list.
#include "server/option_support.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/violation.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "server/status_details.h"

namespace attend::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::array<absl::string_view, 6> kSupported = {"layout",      "scale",   "causal",
                                                         "key_lengths", "weights", "logsumexp"};

// What an option that is set and not supported says: something that is not computed yet, the default after all, or what
// could never be computed.
enum class Meaning { kOther, kDefault, kInvalid };

struct Exception {
  absl::string_view option;
  Meaning (*meaning)(const v1::AttendRequest& request);
  absl::string_view reason;  // of kInvalid
  absl::string_view limit;   // of kInvalid
};

Meaning OfSoftcap(const v1::AttendRequest& request) {
  const float softcap = request.options().softcap();
  if (!std::isfinite(softcap) || softcap < 0) return Meaning::kInvalid;
  return softcap == 0 ? Meaning::kDefault : Meaning::kOther;
}

Meaning OfWindow(int64_t keys) {
  if (keys < -1) return Meaning::kInvalid;
  return keys == -1 ? Meaning::kDefault : Meaning::kOther;
}

Meaning OfOutputType(const v1::AttendRequest& request) {
  const v1::DataType type = request.options().output_type();
  if (type == request.query().data_type()) return Meaning::kDefault;
  return type == v1::DATA_TYPE_FLOAT32 ? Meaning::kOther : Meaning::kInvalid;
}

constexpr std::array<Exception, 5> kExceptions = {{
    {"softcap", OfSoftcap, "SOFTCAP_OUT_OF_RANGE", "finite and at least 0"},
    {"window_left", [](const v1::AttendRequest& request) { return OfWindow(request.options().window_left()); },
     "WINDOW_OUT_OF_RANGE", "at least -1"},
    {"window_right", [](const v1::AttendRequest& request) { return OfWindow(request.options().window_right()); },
     "WINDOW_OUT_OF_RANGE", "at least -1"},
    {"output_type", OfOutputType, "OUTPUT_TYPE_MISMATCH", "the type of query, or DATA_TYPE_FLOAT32"},
    {"scores",
     [](const v1::AttendRequest& request) {
       return request.results().scores() == v1::SCORE_STAGE_NONE ? Meaning::kDefault : Meaning::kOther;
     },
     "", ""},
}};

std::string ValueOf(const Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) {
    return absl::StrCat(message.GetReflection()->FieldSize(message, &field), " elements");
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return "set";
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &text);
  return text;
}

absl::Status NotSupported(const core::Violation& violation, absl::string_view version) {
  return StatusWithViolation(
      absl::StatusCode::kUnimplemented, violation,
      absl::StrCat(violation.field, " (", violation.value, ") is not computed by this server, attend ", version));
}

absl::Status CheckOption(const v1::AttendRequest& request, const Message& message, const FieldDescriptor& field,
                         absl::string_view version) {
  if (std::find(kSupported.begin(), kSupported.end(), field.name()) != kSupported.end()) return absl::OkStatus();
  const absl::string_view parent = &message == &request.options() ? "options." : "results.";
  core::Violation violation = {.field = absl::StrCat(parent, field.name()),
                               .reason = "OPTION_NOT_SUPPORTED",
                               .value = ValueOf(message, field),
                               .limit = "not set"};
  const auto* const exception =
      std::find_if(kExceptions.begin(), kExceptions.end(),
                   [&field](const Exception& candidate) { return candidate.option == field.name(); });
  const Meaning meaning = exception == kExceptions.end() ? Meaning::kOther : exception->meaning(request);
  switch (meaning) {
    case Meaning::kDefault:
      return absl::OkStatus();
    case Meaning::kOther:
      return NotSupported(violation, version);
    case Meaning::kInvalid:
      violation.reason = std::string(exception->reason);
      violation.limit = std::string(exception->limit);
      return core::InvalidArgument(violation);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> SupportedOptions() { return {kSupported.begin(), kSupported.end()}; }

absl::Status CheckOptionSupport(const v1::AttendRequest& request, absl::string_view version) {
  if (request.options().layout() == v1::LAYOUT_THD) {
    return NotSupported({.field = "options.layout",
                         .reason = "OPTION_NOT_SUPPORTED",
                         .value = "LAYOUT_THD",
                         .limit = "LAYOUT_BHND or LAYOUT_BNHD"},
                        version);
  }
  for (const Message* message :
       {static_cast<const Message*>(&request.options()), static_cast<const Message*>(&request.results())}) {
    std::vector<const FieldDescriptor*> fields;
    message->GetReflection()->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (absl::Status status = CheckOption(request, *message, *field, version); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace attend::server
