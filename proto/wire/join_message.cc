// The inverse of split_message.cc. Lengths stand before contents, so the message is planned from the inside out: a list
// of texts and of places for bulk bytes, with the size of it all. The plan alone answers JoinedSize.
#include "proto/wire/join_message.h"

#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"
#include "proto/wire/wire_text.h"

namespace attend::wire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// A text, then bulk bytes unless bulk_index is -1.
struct Piece {
  std::string text;
  int bulk_index = -1;
};

struct Plan {
  std::vector<Piece> pieces = {Piece()};
  int64_t size = 0;

  void AddText(absl::string_view text) {
    if (pieces.back().bulk_index >= 0) pieces.emplace_back();
    AppendText(text, pieces.back().text);
    size += static_cast<int64_t>(text.size());
  }
  void AddBulk(const BulkField& field, int64_t length) {
    std::string header;
    AppendLengthTag(field.number, length, header);
    AddText(header);
    pieces.back().bulk_index = field.bulk_index;
    size += length;
  }
  void AddMessage(uint32_t number, Plan inside) {
    std::string header;
    AppendLengthTag(number, inside.size, header);
    AddText(header);
    size += inside.size;
    for (Piece& piece : inside.pieces) {
      if (pieces.back().bulk_index >= 0) {
        pieces.push_back(std::move(piece));
      } else {
        pieces.back().text += piece.text;
        pieces.back().bulk_index = piece.bulk_index;
      }
    }
  }
};

class JoinPlanner {
 public:
  explicit JoinPlanner(std::span<const int64_t> bulk_sizes) : bulk_sizes_(bulk_sizes) {}

  // The message `small` with the bulk bytes of `fields` filled in.
  Plan PlanMessage(absl::string_view small, std::span<const BulkField> fields) const {
    Plan plan;
    std::vector<bool> present(fields.size(), false);
    CodedInputStream input(reinterpret_cast<const uint8_t*>(small.data()), static_cast<int>(small.size()));
    size_t start = 0;
    while (const uint32_t tag = input.ReadTag()) {
      const size_t found = Find(fields, tag);
      absl::string_view contents;
      if (found < fields.size()) {
        contents = ReadContents(small, input);
        plan.AddMessage(fields[found].number, PlanMessage(contents, fields[found].fields));
        present[found] = true;
      } else {
        WireFormatLite::SkipField(&input, tag);
        plan.AddText(small.substr(start, static_cast<size_t>(input.CurrentPosition()) - start));
      }
      start = static_cast<size_t>(input.CurrentPosition());
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!present[i]) AddMissing(fields[i], plan);
    }
    return plan;
  }

 private:
  // The index of the message field on the way to bulk bytes that `tag` begins; fields.size() if there is none.
  static size_t Find(std::span<const BulkField> fields, uint32_t tag) {
    size_t index = 0;
    while (index < fields.size() && (fields[index].bulk_index >= 0 ||
                                     tag != WireFormatLite::MakeTag(static_cast<int>(fields[index].number),
                                                                    WireFormatLite::WIRETYPE_LENGTH_DELIMITED))) {
      ++index;
    }
    return index;
  }

  static absl::string_view ReadContents(absl::string_view small, CodedInputStream& input) {
    uint32_t length = 0;
    input.ReadVarint32(&length);
    const absl::string_view contents = small.substr(static_cast<size_t>(input.CurrentPosition()), length);
    input.Skip(static_cast<int>(length));
    return contents;
  }

  void AddMissing(const BulkField& field, Plan& plan) const {
    if (field.bulk_index >= 0) {
      const int64_t length = bulk_sizes_[static_cast<size_t>(field.bulk_index)];
      if (length > 0) plan.AddBulk(field, length);
      return;
    }
    Plan inside = PlanMessage({}, field.fields);
    if (inside.size > 0) plan.AddMessage(field.number, std::move(inside));
  }

  std::span<const int64_t> bulk_sizes_;
};

}  // namespace

grpc::ByteBuffer JoinMessage(absl::string_view small, std::span<const BulkBytes> bulk, const BulkFields& bulk_fields) {
  std::vector<int64_t> sizes;
  for (const BulkBytes& bytes : bulk) sizes.push_back(bytes.size());
  const Plan plan = JoinPlanner(sizes).PlanMessage(small, bulk_fields.fields);
  std::vector<grpc::Slice> slices;
  for (const Piece& piece : plan.pieces) {
    if (!piece.text.empty()) slices.emplace_back(piece.text);
    if (piece.bulk_index < 0) continue;
    const std::vector<grpc::Slice>& contents = bulk[static_cast<size_t>(piece.bulk_index)].slices();
    slices.insert(slices.end(), contents.begin(), contents.end());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace attend::wire
