// The header of an npy file: which elements follow, and how many.
//
// Format: NumPy's `numpy.lib.format`, versions 1.0 to 3.0. Files come from strangers: everything is checked against the
// file's real size before anything is allocated for it.
#ifndef ATTEND_CLIENT_NPY_HEADER_H_
#define ATTEND_CLIENT_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/array.h"

namespace attend::client {

struct NpyHeader {
  ArrayType type = ArrayType::kFloat32;
  std::vector<int64_t> shape;  // outermost axis first; empty for a single element
  int64_t data_offset = 0;     // where the elements start in the file
  int64_t data_bytes = 0;      // how long they are; data_offset + data_bytes is the file's size
};

struct NpyReadOptions {
  // NumPy has no bfloat16: the ml_dtypes package writes it as '<V2'. A file of '<V2' or '|V2' says only "two bytes
  // each". With this they are bfloat16, without it such a file is refused.
  bool two_byte_void_is_bfloat16 = false;
};

// Nothing longer is accepted as a header: those of real arrays take 128 bytes.
inline constexpr int64_t kMaxNpyHeaderBytes = 65536;

// Reads a header. `start` is how the file begins: the first min(file_bytes, kMaxNpyHeaderBytes) bytes of it.
// INVALID_ARGUMENT, saying what the file has and what is wanted, if it is no npy file of the types above in C order, or
// if its size is not what its shape needs.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start, int64_t file_bytes,
                                         const NpyReadOptions& options = {});

// What a file of this type and shape starts with, version 1.0, padded so that the elements start at a multiple of 64.
// At most kMaxArrayRank axes.
std::string EncodeNpyHeader(ArrayType type, const std::vector<int64_t>& shape);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_NPY_HEADER_H_
