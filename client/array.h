// Arrays in files, whatever the format: their element types, sizes and what messages say of them.
#ifndef ATTEND_CLIENT_ARRAY_H_
#define ATTEND_CLIENT_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attend::client {

// The element types that tensors of this project have in files; all little-endian.
enum class ArrayType { kFloat32, kFloat16, kBFloat16, kBool, kInt64 };

// No array has more axes: NumPy's own limit.
inline constexpr int kMaxArrayRank = 64;

// "f32", "f16", "bf16", "bool" or "int64".
absl::string_view ArrayTypeName(ArrayType type);

// Bytes of one element.
int64_t ArrayElementBytes(ArrayType type);

// Bytes of an array; nothing if they do not fit int64. Lengths are at least 0.
std::optional<int64_t> ArrayBytes(ArrayType type, const std::vector<int64_t>& shape);

// "[2, 8, 512, 64]": a shape as messages say it.
std::string ShapeText(const std::vector<int64_t>& shape);

// Text of a file for a message: printable, and short whatever the file holds.
std::string Excerpt(absl::string_view text);

// An array that was read.
struct Array {
  ArrayType type = ArrayType::kFloat32;
  std::vector<int64_t> shape;               // outermost axis first
  std::shared_ptr<const std::byte[]> data;  // row-major, little-endian; shared: calls in flight read it
  int64_t bytes = 0;
};

// An array to be written.
struct NamedArray {
  std::string name;  // in files that hold several
  ArrayType type = ArrayType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // exactly the bytes of `shape`
};

// Memory for the elements of an array that is being read, not yet filled. RESOURCE_EXHAUSTED if there is none.
absl::StatusOr<std::shared_ptr<std::byte[]>> AllocateElements(int64_t bytes);

// NOT_FOUND: a file holds arrays of these names, and none of the wanted one.
absl::Status NoArrayNamed(absl::string_view wanted, const std::vector<std::string>& names);

// The same status with "PATH: " before its message.
absl::Status InFile(absl::string_view path, const absl::Status& status);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_ARRAY_H_
