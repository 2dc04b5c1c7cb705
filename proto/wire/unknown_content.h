// Finds what a message has that this program's copy of the contract has not: proto3 would drop it in silence.
#ifndef ATTEND_PROTO_WIRE_UNKNOWN_CONTENT_H_
#define ATTEND_PROTO_WIRE_UNKNOWN_CONTENT_H_

#include <string>
#include <variant>

#include "google/protobuf/message.h"

namespace attend::wire {

// A field whose number (or wire type) the contract does not have.
struct UnknownField {
  std::string message;  // the path of the message it is in: "options.mask"; empty for the message itself
  int number = 0;       // its field number
};

// A value of an enum field that the contract does not name.
struct UnknownEnumValue {
  std::string field;  // the path of the field: "query.data_type"
  int number = 0;     // what was sent
  std::string names;  // the names there are, with numbers: "LAYOUT_UNSPECIFIED (0), LAYOUT_BHND (1)"
};

// Nothing, or the first of either kind in `message` or any message inside it.
using UnknownContent = std::variant<std::monostate, UnknownField, UnknownEnumValue>;
UnknownContent FindUnknownContent(const google::protobuf::Message& message);

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_UNKNOWN_CONTENT_H_
