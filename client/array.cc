#include "client/array.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attend::client {

absl::string_view ArrayTypeName(ArrayType type) {
  switch (type) {
    case ArrayType::kFloat32:
      return "f32";
    case ArrayType::kFloat16:
      return "f16";
    case ArrayType::kBFloat16:
      return "bf16";
    case ArrayType::kBool:
      return "bool";
    case ArrayType::kInt64:
      return "int64";
  }
  return "";
}

int64_t ArrayElementBytes(ArrayType type) {
  switch (type) {
    case ArrayType::kFloat32:
      return 4;
    case ArrayType::kFloat16:
    case ArrayType::kBFloat16:
      return 2;
    case ArrayType::kBool:
      return 1;
    case ArrayType::kInt64:
      return 8;
  }
  return 0;
}

std::optional<int64_t> ArrayBytes(ArrayType type, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t bytes = ArrayElementBytes(type);
  for (const int64_t length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string Excerpt(absl::string_view text) {
  constexpr size_t kLongest = 40;
  return absl::StrCat(absl::CHexEscape(text.substr(0, kLongest)), text.size() > kLongest ? "..." : "");
}

absl::StatusOr<std::shared_ptr<std::byte[]>> AllocateElements(int64_t bytes) {
  std::shared_ptr<std::byte[]> data(new (std::nothrow) std::byte[static_cast<size_t>(bytes)]);
  if (data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
  return data;
}

absl::Status NoArrayNamed(absl::string_view wanted, const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  std::vector<std::string> some;
  for (const std::string& name : names) {
    if (some.size() == kMost) break;
    some.push_back(absl::StrCat("'", Excerpt(name), "'"));
  }
  std::string held = some.empty() ? "no arrays at all" : absl::StrJoin(some, ", ");
  if (names.size() > kMost) absl::StrAppend(&held, " and ", names.size() - kMost, " more");
  return absl::NotFoundError(
      absl::StrCat("holds ", held, ", and none named '", Excerpt(wanted), "' (FILE:NAME takes another)"));
}

absl::Status InFile(absl::string_view path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace attend::client
