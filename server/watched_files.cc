#include "server/watched_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/descriptor.h"

namespace attend::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::Status Bad(const WatchedFiles::File& file, absl::string_view problem) {
  return absl::FailedPreconditionError(absl::StrCat(file.setting, " ", file.path, " ", problem));
}

absl::Status CannotBeRead(const WatchedFiles::File& file, int error) {
  return Bad(file, absl::StrCat("cannot be read: ", std::strerror(error)));
}

absl::StatusOr<std::string> ReadWhole(const WatchedFiles::File& file) {
  // Without O_NONBLOCK opening a pipe that nobody writes to would wait for ever.
  const Descriptor opened(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!opened.valid() || fstat(opened.number(), &status) != 0) return CannotBeRead(file, errno);
  if (!S_ISREG(status.st_mode)) {
    return Bad(file, "is not a regular file, must be one: it is read again and again");
  }
  std::string content(kMaxFileBytes + 1, '\0');
  size_t length = 0;
  while (length < content.size()) {
    const ssize_t got = read(opened.number(), &content[length], content.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotBeRead(file, errno);
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  if (length > kMaxFileBytes) {
    return Bad(file, "is too long, must be at most 1 MiB");
  }
  content.resize(length);
  return content;
}

}  // namespace

absl::StatusOr<bool> WatchedFiles::Look() {
  std::vector<std::string> contents;
  absl::Status status;
  for (const File& file : files_) {
    absl::StatusOr<std::string> content = ReadWhole(file);
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
