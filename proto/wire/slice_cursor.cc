#include "proto/wire/slice_cursor.h"

#include <algorithm>

namespace attend::wire {

SliceCursor::SliceCursor(const std::vector<grpc::Slice>& slices) : slices_(&slices) {
  for (const grpc::Slice& slice : slices) size_ += static_cast<int64_t>(slice.size());
}

template <typename Visit>
void SliceCursor::Advance(int64_t count, Visit visit) {
  position_ += count;
  auto left = static_cast<size_t>(count);
  while (left > 0) {
    const grpc::Slice& slice = (*slices_)[slice_];
    const size_t length = std::min(slice.size() - offset_, left);
    if (length > 0) visit(slice, offset_, length);
    left -= length;
    offset_ += length;
    if (offset_ == slice.size()) {
      ++slice_;
      offset_ = 0;
    }
  }
}

bool SliceCursor::ReadVarint(int64_t end, int max_length, Varint& varint) {
  varint = Varint();
  while (varint.length < max_length && position_ < end) {
    uint8_t byte = 0;
    Advance(1, [&](const grpc::Slice& slice, size_t offset, size_t) { byte = slice.begin()[offset]; });
    varint.value |= static_cast<uint64_t>(byte & 0x7f) << (7 * varint.length);
    varint.bytes[static_cast<size_t>(varint.length++)] = static_cast<char>(byte);
    if (byte < 0x80) return true;
  }
  return false;
}

bool SliceCursor::CopyBytes(int64_t count, int64_t end, std::string& out) {
  if (count > end - position_) return false;
  Advance(count, [&](const grpc::Slice& slice, size_t offset, size_t length) {
    out.append(reinterpret_cast<const char*>(slice.begin()) + offset, length);
  });
  return true;
}

bool SliceCursor::TakeBytes(int64_t count, int64_t end, BulkBytes& out) {
  if (count > end - position_) return false;
  Advance(count, [&](const grpc::Slice& slice, size_t offset, size_t length) {
    out.Append(length == slice.size() ? slice : slice.sub(offset, offset + length));
  });
  return true;
}

}  // namespace attend::wire
