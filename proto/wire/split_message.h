// Takes a message apart: bulk bytes stay where they arrived, the rest becomes a small message for the generated parser.
//
// Why not the generated parser alone: it would copy tens of megabytes into a std::string on the thread that calls it,
// and the tensors would have to be copied once more to be aligned.
#ifndef ATTEND_PROTO_WIRE_SPLIT_MESSAGE_H_
#define ATTEND_PROTO_WIRE_SPLIT_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "proto/wire/bulk_bytes.h"
#include "proto/wire/bulk_fields.h"

namespace attend::wire {

// How many bytes a message may have besides the contents of its bulk fields. It bounds the time and the memory that
// splitting and parsing take, whatever arrives: a parsed field may take 16 times its bytes on the wire. 1 MiB is room
// for the lengths of 100,000 sequences; everything else in a message is a few hundred bytes.
inline constexpr int64_t kMaxSmallBytes = int64_t{1} << 20;

struct SplitParts {
  std::string small;            // the message without the bulk fields, which the generated parser takes
  std::vector<BulkBytes> bulk;  // by bulk_index; empty where the field is absent or has no bytes
};

// Splits the message in `slices`, wherever they are cut. Takes time in proportion to the number of slices and of small
// bytes, not to the bulk. As proto3 has it: the last occurrence of a bulk field wins, occurrences of a message field
// are merged, a field with another wire type than its own is an unknown field (and stays in `small`).
//
// INVALID_ARGUMENT: the bytes are no message: a varint or a field that ends beyond its message, field number 0, an end
// of a group that did not start, a wire type that does not exist. What remains to be found wrong in `small` is found by
// its parser: it accepts `small` exactly if it accepts the whole.
// RESOURCE_EXHAUSTED: more than `max_small_bytes` besides bulk contents.
absl::StatusOr<SplitParts> SplitMessage(const std::vector<grpc::Slice>& slices, const BulkFields& bulk_fields,
                                        int64_t max_small_bytes = kMaxSmallBytes);
absl::StatusOr<SplitParts> SplitMessage(const grpc::ByteBuffer& message, const BulkFields& bulk_fields,
                                        int64_t max_small_bytes = kMaxSmallBytes);

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_SPLIT_MESSAGE_H_
