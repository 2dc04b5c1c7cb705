// Writes pieces of the protobuf wire format. For split_message.cc and join_message.cc.
#ifndef ATTEND_PROTO_WIRE_WIRE_TEXT_H_
#define ATTEND_PROTO_WIRE_WIRE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace attend::wire {

inline void AppendText(absl::string_view text, std::string& out) { out.append(text.data(), text.size()); }

inline void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// The tag of a length-delimited field and its length.
inline void AppendLengthTag(uint32_t field_number, int64_t length, std::string& out) {
  constexpr uint64_t kLengthDelimited = 2;
  AppendVarint(uint64_t{field_number} << 3 | kLengthDelimited, out);
  AppendVarint(static_cast<uint64_t>(length), out);
}

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_WIRE_TEXT_H_
