// Puts a message together from a small part and bulk bytes, which are referenced, not copied.
#ifndef ATTEND_PROTO_WIRE_JOIN_MESSAGE_H_
#define ATTEND_PROTO_WIRE_JOIN_MESSAGE_H_

#include <span>

#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/bulk_bytes.h"
#include "proto/wire/bulk_fields.h"

namespace attend::wire {

// `small` is what the generated code serialised, with its bulk fields empty; `bulk` has bulk_fields.count elements, by
// bulk_index. The result is the serialised form of the message with the bulk fields filled in: each is the last field
// of its enclosing message, which is made where `small` lacks it; an empty one is left out, as proto3 does. At most 2
// GiB go through gRPC.
grpc::ByteBuffer JoinMessage(absl::string_view small, std::span<const BulkBytes> bulk, const BulkFields& bulk_fields);

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_JOIN_MESSAGE_H_
