// The header of a safetensors file: which tensors it holds, and where.
//
// Format: 8 bytes of little-endian length, so many bytes of JSON, then the tensors' elements, each tensor right after
// another (https://huggingface.co/docs/safetensors). Files come from strangers: every offset is checked against the
// file's real size, and so is what offsets and shapes say of each other.
#ifndef ATTEND_CLIENT_SAFETENSORS_HEADER_H_
#define ATTEND_CLIENT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/array.h"

namespace attend::client {

// A tensor's row of the header.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;              // as the file has it: "BF16"
  std::optional<ArrayType> type;  // absent: no type of this project
  std::vector<int64_t> shape;
  int64_t begin = 0;  // where the elements are, in bytes after the header
  int64_t end = 0;
};

// The bytes before the JSON.
inline constexpr int64_t kSafetensorsLengthBytes = 8;
// No longer JSON is read: that of a model of a thousand layers takes a tenth of it.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = int64_t{1} << 24;
// The one key of the header that is no tensor.
inline constexpr char kSafetensorsMetadata[] = "__metadata__";

// The length of the JSON of a file of `file_bytes` bytes that begins with `start`, its first bytes or more of them.
// INVALID_ARGUMENT if it is longer than the file or than kMaxSafetensorsHeaderBytes.
absl::StatusOr<int64_t> SafetensorsHeaderBytes(absl::string_view start, int64_t file_bytes);

// Reads the JSON of a file that has `data_bytes` bytes after it. INVALID_ARGUMENT, naming the tensor, for what is not
// such JSON, names that come twice, and tensors that overlap, leave bytes between them, reach beyond the file or have
// not the bytes of their shape.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(absl::string_view json, int64_t data_bytes);

// What a file that holds `arrays` one after the other starts with; padded so that they begin at a multiple of 8. Names
// are UTF-8 and differ.
std::string EncodeSafetensorsHeader(std::span<const NamedArray> arrays);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_SAFETENSORS_HEADER_H_
