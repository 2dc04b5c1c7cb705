// Reads the protobuf wire format across slices, forward only. For split_message.cc.
#ifndef ATTEND_PROTO_WIRE_SLICE_CURSOR_H_
#define ATTEND_PROTO_WIRE_SLICE_CURSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "grpcpp/support/slice.h"
#include "proto/wire/bulk_bytes.h"

namespace attend::wire {

// A varint as it stood: encoders may pad one, and what is handed on must stay the same bytes.
struct Varint {
  uint64_t value = 0;
  std::array<char, 10> bytes = {};
  int length = 0;

  absl::string_view text() const { return {bytes.data(), static_cast<size_t>(length)}; }
};

class SliceCursor {
 public:
  // `slices` outlives the cursor.
  explicit SliceCursor(const std::vector<grpc::Slice>& slices);

  int64_t position() const { return position_; }
  int64_t size() const { return size_; }

  // Each of these returns false, with the position somewhere behind where it was, if there is less to read before
  // `end`, which is at most size(). ReadVarint also does if the varint is longer than `max_length` bytes, 1 to 10.
  bool ReadVarint(int64_t end, int max_length, Varint& varint);
  bool CopyBytes(int64_t count, int64_t end, std::string& out);
  // References the bytes instead of copying them.
  bool TakeBytes(int64_t count, int64_t end, BulkBytes& out);

 private:
  // Calls `visit(slice, offset, length)` for each stretch of the next `count` bytes, and moves behind them.
  template <typename Visit>
  void Advance(int64_t count, Visit visit);

  const std::vector<grpc::Slice>* slices_;
  size_t slice_ = 0;   // the slice of the next byte
  size_t offset_ = 0;  // and its place therein
  int64_t position_ = 0;
  int64_t size_ = 0;
};

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_SLICE_CURSOR_H_
