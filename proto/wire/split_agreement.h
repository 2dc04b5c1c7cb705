// The yardstick of SplitMessage, for tests: the generated parser, which reads the same bytes its own slow way.
#ifndef ATTEND_PROTO_WIRE_SPLIT_AGREEMENT_H_
#define ATTEND_PROTO_WIRE_SPLIT_AGREEMENT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "grpcpp/support/slice.h"

namespace attend::wire {

// Slices of `bytes` (copied), each of `slice_size` bytes but the last.
std::vector<grpc::Slice> SlicesOf(absl::string_view bytes, size_t slice_size);

// How splitting the AttendRequest in `slices` differs from what the generated parser makes of `bytes`, the same bytes
// in one piece: one accepts what the other refuses, or they read different requests. Empty if they agree, as they
// always should; a message with too many bytes besides tensor data, which only splitting refuses, counts as agreement.
std::string SplitDisagreement(absl::string_view bytes, const std::vector<grpc::Slice>& slices);

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_SPLIT_AGREEMENT_H_
