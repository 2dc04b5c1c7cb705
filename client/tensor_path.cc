#include "client/tensor_path.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/array.h"
#include "client/commands.h"
#include "client/npz_file.h"
#include "client/safetensors_header.h"

namespace attend::client {
namespace {

struct Extension {
  const char* text;
  FileFormat format;
};
constexpr Extension kExtensions[] = {{".npz", FileFormat::kNpz}, {".safetensors", FileFormat::kSafetensors}};

bool IsUtf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

absl::Status CheckName(const TensorPath& path) {
  if (path.name.empty()) {
    return UsageError(absl::StrCat(path.file, " holds tensors by name, and none is named: say ", path.file, ":NAME"));
  }
  if (!IsUtf8(path.name)) {
    return UsageError(absl::StrCat("the tensor's name '", Excerpt(path.name), "' is not UTF-8"));
  }
  if (path.format == FileFormat::kNpz && std::any_of(path.name.begin(), path.name.end(), &absl::ascii_iscntrl)) {
    return UsageError(absl::StrCat("the tensor's name '", Excerpt(path.name),
                                   "' has control characters, which no npz file can hold"));
  }
  if (path.format == FileFormat::kNpz && path.name.size() > kMaxNpzNameBytes) {
    return UsageError(absl::StrCat("the tensor's name has ", path.name.size(), " bytes, must have at most ",
                                   kMaxNpzNameBytes, " in an npz file"));
  }
  if (path.format == FileFormat::kSafetensors && path.name == kSafetensorsMetadata) {
    return UsageError(absl::StrCat(path.name, " is the name of a safetensors file's metadata, and of no tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string TensorPath::Text() const {
  return format == FileFormat::kNpy ? file : absl::StrCat(file, ":", Excerpt(name));
}

absl::StatusOr<TensorPath> ParseTensorPath(const std::string& text, const std::string& default_name) {
  TensorPath path = {.file = text};
  size_t end = std::string::npos;  // of the file's name
  for (const Extension& extension : kExtensions) {
    size_t at = text.find(absl::StrCat(extension.text, ":"));
    const size_t length = std::string(extension.text).size();
    if (at == std::string::npos && absl::EndsWith(text, extension.text)) at = text.size() - length;
    if (at == std::string::npos || at + length >= end) continue;
    end = at + length;
    path.format = extension.format;
  }
  if (path.format == FileFormat::kNpy) return path;
  path.file = text.substr(0, end);
  path.name = end == text.size() ? default_name : text.substr(end + 1);
  if (absl::Status status = CheckName(path); !status.ok()) return status;
  return path;
}

std::string TensorPath::Target() const {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(file, error);
  const std::filesystem::path target = error ? absolute : std::filesystem::weakly_canonical(absolute, error);
  return error ? file : target.string();
}

}  // namespace attend::client
