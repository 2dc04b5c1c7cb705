#include "core/violation.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attend::core {
namespace {

constexpr absl::string_view kPayloadUrl = "attend.core/Violation";

// Each text as its length, a colon and its bytes: texts may come from clients and hold anything.
void AppendText(absl::string_view text, std::string& to) { absl::StrAppend(&to, text.size(), ":", text); }

// Takes one text off the front of `from`; false if there is none.
bool TakeText(absl::string_view& from, std::string& text) {
  const size_t colon = from.find(':');
  size_t size = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(from.substr(0, colon), &size)) return false;
  from.remove_prefix(colon + 1);
  if (from.size() < size) return false;
  text = std::string(from.substr(0, size));
  from.remove_prefix(size);
  return true;
}

}  // namespace

absl::Status InvalidArgument(const Violation& violation, absl::string_view message) {
  std::string payload;
  AppendText(violation.field, payload);
  AppendText(violation.reason, payload);
  AppendText(violation.value, payload);
  AppendText(violation.limit, payload);
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kPayloadUrl, absl::Cord(std::move(payload)));
  return status;
}

absl::Status InvalidArgument(const Violation& violation) {
  return InvalidArgument(violation,
                         absl::StrCat(violation.field, " is ", violation.value, ", must be ", violation.limit));
}

std::optional<Violation> GetViolation(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string bytes(*payload);
  absl::string_view rest = bytes;
  Violation violation;
  for (std::string* text : {&violation.field, &violation.reason, &violation.value, &violation.limit}) {
    if (!TakeText(rest, *text)) return std::nullopt;
  }
  return violation;
}

}  // namespace attend::core
