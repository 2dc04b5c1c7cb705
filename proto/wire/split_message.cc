// The wire format is a list of fields: a tag (field number * 8 + wire type, as a varint), then, by wire type, a varint,
// 4 or 8 bytes, or a length and so many bytes. A message field is a length and its own list. (protobuf.dev,
// "Encoding".)
//
// The walk goes down only along message fields that lead to bulk bytes, three levels at most; everything else is copied
// to the small message as it stands, without a look inside. Groups (wire types 3 and 4, long deprecated) nest without
// lengths, so their ends are found with a stack, not by recursion. Every byte outside bulk contents counts towards
// max_small_bytes, also those of fields that a later occurrence replaces: the work is bounded, whatever arrives.
#include "proto/wire/split_message.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/wire/slice_cursor.h"
#include "proto/wire/wire_text.h"

namespace attend::wire {
namespace {

using google::protobuf::internal::WireFormatLite;

// Longer than these the generated parser takes no varint: 32 bits for tags and lengths, 64 for values.
constexpr int kMaxShortVarint = 5;
constexpr int kMaxVarint = 10;

const BulkField* Find(std::span<const BulkField> fields, uint32_t number) {
  for (const BulkField& field : fields) {
    if (field.number == number) return &field;
  }
  return nullptr;
}

class MessageSplitter {
 public:
  MessageSplitter(const std::vector<grpc::Slice>& slices, const BulkFields& bulk_fields, int64_t max_small_bytes)
      : cursor_(slices), max_small_bytes_(max_small_bytes) {
    parts_.bulk.resize(static_cast<size_t>(bulk_fields.count));
  }

  absl::StatusOr<SplitParts> Split(std::span<const BulkField> fields) {
    if (absl::Status status = SplitFields(cursor_.size(), fields, parts_.small); !status.ok()) return status;
    return std::move(parts_);
  }

 private:
  struct Tag {
    uint32_t number = 0;
    WireFormatLite::WireType type = WireFormatLite::WIRETYPE_VARINT;
    Varint varint;
  };

  absl::Status SplitFields(int64_t end, std::span<const BulkField> fields, std::string& small);
  absl::Status SplitField(const BulkField& field, int64_t end, std::string& small);
  // Copies what follows `tag`, up to the end of the field.
  absl::Status CopyField(const Tag& tag, int64_t end, std::string& small);
  absl::Status CopyGroup(uint32_t number, int64_t end, std::string& small);

  absl::Status ReadTag(int64_t end, Tag& tag);
  absl::Status ReadVarint(int64_t end, int max_length, Varint& varint);
  absl::Status ReadLength(int64_t end, Varint& length);
  absl::Status CopyBytes(int64_t count, int64_t end, std::string& small);
  absl::Status Charge(int64_t bytes);
  absl::Status Malformed(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the bytes are not a message: at byte ", cursor_.position(), ", ", what));
  }

  SliceCursor cursor_;
  int64_t max_small_bytes_;
  int64_t small_bytes_ = 0;
  SplitParts parts_;
};

absl::Status MessageSplitter::SplitFields(int64_t end, std::span<const BulkField> fields, std::string& small) {
  while (cursor_.position() < end) {
    Tag tag;
    if (absl::Status status = ReadTag(end, tag); !status.ok()) return status;
    const BulkField* field = Find(fields, tag.number);
    absl::Status status;
    if (field != nullptr && tag.type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      status = SplitField(*field, end, small);
    } else {
      AppendText(tag.varint.text(), small);
      status = CopyField(tag, end, small);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status MessageSplitter::SplitField(const BulkField& field, int64_t end, std::string& small) {
  Varint length;
  if (absl::Status status = ReadLength(end, length); !status.ok()) return status;
  const auto count = static_cast<int64_t>(length.value);
  if (field.bulk_index >= 0) {
    BulkBytes bytes;
    if (!cursor_.TakeBytes(count, end, bytes)) return Malformed("a field ends beyond its message");
    parts_.bulk[static_cast<size_t>(field.bulk_index)] = std::move(bytes);
    return absl::OkStatus();
  }
  std::string inside;
  if (absl::Status status = SplitFields(cursor_.position() + count, field.fields, inside); !status.ok()) return status;
  AppendLengthTag(field.number, static_cast<int64_t>(inside.size()), small);
  small += inside;
  return absl::OkStatus();
}

absl::Status MessageSplitter::CopyField(const Tag& tag, int64_t end, std::string& small) {
  switch (tag.type) {
    case WireFormatLite::WIRETYPE_VARINT: {
      Varint value;
      if (absl::Status status = ReadVarint(end, kMaxVarint, value); !status.ok()) return status;
      AppendText(value.text(), small);
      return absl::OkStatus();
    }
    case WireFormatLite::WIRETYPE_FIXED64:
      return CopyBytes(8, end, small);
    case WireFormatLite::WIRETYPE_FIXED32:
      return CopyBytes(4, end, small);
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
      Varint length;
      if (absl::Status status = ReadLength(end, length); !status.ok()) return status;
      AppendText(length.text(), small);
      return CopyBytes(static_cast<int64_t>(length.value), end, small);
    }
    case WireFormatLite::WIRETYPE_START_GROUP:
      return CopyGroup(tag.number, end, small);
    case WireFormatLite::WIRETYPE_END_GROUP:
      return Malformed("a group ends that did not start");
  }
  return Malformed("there is no such wire type");
}

absl::Status MessageSplitter::CopyGroup(uint32_t number, int64_t end, std::string& small) {
  std::vector<uint32_t> open = {number};
  while (!open.empty()) {
    Tag tag;
    if (absl::Status status = ReadTag(end, tag); !status.ok()) return status;
    AppendText(tag.varint.text(), small);
    if (tag.type == WireFormatLite::WIRETYPE_START_GROUP) {
      open.push_back(tag.number);
    } else if (tag.type == WireFormatLite::WIRETYPE_END_GROUP && tag.number == open.back()) {
      open.pop_back();
    } else if (absl::Status status = CopyField(tag, end, small); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status MessageSplitter::ReadTag(int64_t end, Tag& tag) {
  if (absl::Status status = ReadVarint(end, kMaxShortVarint, tag.varint); !status.ok()) return status;
  const auto value = static_cast<uint32_t>(tag.varint.value);
  tag.number = value >> 3;
  tag.type = static_cast<WireFormatLite::WireType>(value & 7);
  return tag.number == 0 ? Malformed("a field has the number 0") : absl::OkStatus();
}

absl::Status MessageSplitter::ReadVarint(int64_t end, int max_length, Varint& varint) {
  if (!cursor_.ReadVarint(end, max_length, varint)) return Malformed("a varint does not end");
  return Charge(varint.length);
}

absl::Status MessageSplitter::ReadLength(int64_t end, Varint& length) {
  if (!cursor_.ReadVarint(end, kMaxShortVarint, length))
    return Malformed("a field's length is cut off or over 32 bits");
  if (absl::Status status = Charge(length.length); !status.ok()) return status;
  if (length.value > static_cast<uint64_t>(end - cursor_.position())) {
    return Malformed("a field ends beyond its message");
  }
  return absl::OkStatus();
}

absl::Status MessageSplitter::CopyBytes(int64_t count, int64_t end, std::string& small) {
  if (count > end - cursor_.position()) return Malformed("a field ends beyond its message");
  if (absl::Status status = Charge(count); !status.ok()) return status;
  cursor_.CopyBytes(count, end, small);
  return absl::OkStatus();
}

absl::Status MessageSplitter::Charge(int64_t bytes) {
  small_bytes_ += bytes;
  if (small_bytes_ <= max_small_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the message has more than ", max_small_bytes_,
                                                   " bytes besides tensor data; found ", small_bytes_, " so far"));
}

}  // namespace

absl::StatusOr<SplitParts> SplitMessage(const std::vector<grpc::Slice>& slices, const BulkFields& bulk_fields,
                                        int64_t max_small_bytes) {
  return MessageSplitter(slices, bulk_fields, max_small_bytes).Split(bulk_fields.fields);
}

absl::StatusOr<SplitParts> SplitMessage(const grpc::ByteBuffer& message, const BulkFields& bulk_fields,
                                        int64_t max_small_bytes) {
  std::vector<grpc::Slice> slices;
  if (message.Valid()) {
    if (const grpc::Status status = message.Dump(&slices); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the bytes are not a message: ", status.error_message()));
    }
  }
  return SplitMessage(slices, bulk_fields, max_small_bytes);
}

}  // namespace attend::wire
