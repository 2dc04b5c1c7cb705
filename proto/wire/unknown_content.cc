#include "proto/wire/unknown_content.h"

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

// Calls `visit(message, path)` for `message` and every message inside it, outermost first, until it returns a value. As
// deep as the contract nests: unknown messages are unknown fields, not messages.
template <typename Visit>
auto Walk(const Message& message, const std::string& path, const Visit& visit) -> decltype(visit(message, path)) {
  if (auto found = visit(message, path)) return found;
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string inner = absl::StrCat(path, path.empty() ? "" : ".", field->name());
    if (!field->is_repeated()) {
      if (auto found = Walk(reflection.GetMessage(message, field), inner, visit)) return found;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      const Message& element = reflection.GetRepeatedMessage(message, field, i);
      if (auto found = Walk(element, absl::StrCat(inner, "[", i, "]"), visit)) return found;
    }
  }
  return {};
}

std::string NamesOf(const EnumDescriptor& type) {
  std::string names;
  for (int i = 0; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", type.value(i)->name(), " (", type.value(i)->number(), ")");
  }
  return names;
}

std::optional<UnknownEnumValue> UnknownEnumValueIn(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int number = field->is_repeated() ? reflection.GetRepeatedEnumValue(message, field, i)
                                              : reflection.GetEnumValue(message, field);
      if (field->enum_type()->FindValueByNumber(number) != nullptr) continue;
      const std::string index = field->is_repeated() ? absl::StrCat("[", i, "]") : "";
      return UnknownEnumValue{absl::StrCat(path, path.empty() ? "" : ".", field->name(), index), number,
                              NamesOf(*field->enum_type())};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<UnknownField> FindUnknownField(const Message& message) {
  return Walk(message, "", [](const Message& inner, const std::string& path) -> std::optional<UnknownField> {
    const auto& unknown = inner.GetReflection()->GetUnknownFields(inner);
    if (unknown.empty()) return std::nullopt;
    return UnknownField{path, unknown.field(0).number()};
  });
}

std::optional<UnknownEnumValue> FindUnknownEnumValue(const Message& message) {
  return Walk(message, "", UnknownEnumValueIn);
}

}  // namespace attend::wire
