#include "client/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

absl::Status ReadError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": cannot be read: ", std::generic_category().message(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // Without O_NONBLOCK opening a pipe that nobody writes to would wait for ever.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return ReadError(path, errno);
  InputFile file(path, descriptor);
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return ReadError(path, errno);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  file.bytes_ = status.st_size;
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

absl::Status InputFile::ReadAt(int64_t offset, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t got = pread(descriptor_, target.data(), target.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError(path_, errno);
    if (got == 0) return absl::InvalidArgumentError(absl::StrCat(path_, ": became shorter while it was read"));
    target = target.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

int InputFile::Release() && { return std::exchange(descriptor_, -1); }

}  // namespace attend::client
