#include "proto/wire/unknown_content.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace attend::wire {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// "name", or "name[index]" of a repeated field.
std::string Segment(const FieldDescriptor& field, int index) {
  return field.is_repeated() ? absl::StrCat(field.name(), "[", index, "]") : field.name();
}

std::string NamesOf(const EnumDescriptor& type) {
  std::string names;
  for (int i = 0; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", type.value(i)->name(), " (", type.value(i)->number(), ")");
  }
  return names;
}

// `found` in a message whose own place is `segment` of the enclosing one.
UnknownContent Within(const std::string& segment, UnknownContent found) {
  if (auto* field = std::get_if<UnknownField>(&found)) {
    field->message = absl::StrCat(segment, field->message.empty() ? "" : ".", field->message);
  } else if (auto* value = std::get_if<UnknownEnumValue>(&found)) {
    value->field = absl::StrCat(segment, ".", value->field);
  }
  return found;
}

// What is unknown in element `index` of a field (0 where it is not repeated).
UnknownContent FindInElement(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    UnknownContent found =
        FindUnknownContent(field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, index)
                                               : reflection.GetMessage(message, &field));
    if (std::holds_alternative<std::monostate>(found)) return found;
    return Within(Segment(field, index), std::move(found));
  }
  const int number = field.is_repeated() ? reflection.GetRepeatedEnumValue(message, &field, index)
                                         : reflection.GetEnumValue(message, &field);
  if (field.enum_type()->FindValueByNumber(number) != nullptr) return {};
  return UnknownEnumValue{Segment(field, index), number, NamesOf(*field.enum_type())};
}

}  // namespace

// As deep as the contract nests: messages that it does not have are unknown fields.
UnknownContent FindUnknownContent(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) return UnknownField{"", unknown.field(0).number()};
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE && field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) {
      continue;
    }
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      UnknownContent found = FindInElement(message, *field, i);
      if (!std::holds_alternative<std::monostate>(found)) return found;
    }
  }
  return {};
}

}  // namespace attend::wire
