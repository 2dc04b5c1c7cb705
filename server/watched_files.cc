#include "server/watched_files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kMaxFileBytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.is_open() || file.bad()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " cannot be read: ", std::strerror(errno)));
  }
  content.resize(static_cast<size_t>(file.gcount()));
  if (content.size() > kMaxFileBytes) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is too long, must be at most 1 MiB"));
  }
  return content;
}

}  // namespace

absl::StatusOr<bool> WatchedFiles::Look() {
  std::vector<std::string> contents;
  absl::Status status;
  for (const std::string& path : paths_) {
    absl::StatusOr<std::string> content = ReadWhole(path);
    if (!content.ok()) {
      status = content.status();
      break;
    }
    contents.push_back(*std::move(content));
  }
  const bool unchanged = status.ok() && contents == used_;
  if (status.ok() && !unchanged) status = use_(contents);
  const bool news = status != std::exchange(last_, status);
  if (!status.ok()) return news ? absl::StatusOr<bool>(status) : false;
  if (unchanged) return false;
  used_ = std::move(contents);
  return true;
}

}  // namespace attend::server
