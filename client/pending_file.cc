#include "client/pending_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(int error, absl::string_view path, absl::string_view what) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// The file that a rename to `path` must replace: behind symbolic links, and never a device or a folder.
absl::StatusOr<std::string> ResolveTarget(const std::string& path) {
  if (path.empty()) return absl::FailedPreconditionError("the path of an output is empty");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return path;
  if (error) return FileError(error.value(), path, "cannot be looked at");
  if (status.type() != fs::file_type::regular) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": is there and is not a regular file"));
  }
  const fs::path target = fs::canonical(path, error);
  if (error) return FileError(error.value(), path, "cannot be resolved");
  return target.string();
}

}  // namespace

absl::Status PendingFile::Check(const std::string& path) {
  auto target = ResolveTarget(path);
  if (!target.ok()) return target.status();
  fs::path folder = fs::path(*target).parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) return FileError(errno, path, "cannot be made");
  return absl::OkStatus();
}

absl::StatusOr<PendingFile> PendingFile::Create(const std::string& path) {
  auto target = ResolveTarget(path);
  if (!target.ok()) return target.status();
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string temporary = absl::StrCat(*target, ".part-", getpid(), "-", attempt);
    const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return PendingFile(*std::move(target), std::move(temporary), descriptor);
    if (errno != EEXIST) return FileError(errno, path, "cannot be made");
  }
  return FileError(EEXIST, path, "no temporary name is free");
}

PendingFile::PendingFile(std::string path, std::string temporary_path, int descriptor)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), descriptor_(descriptor) {}

PendingFile::~PendingFile() { Discard(); }

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

PendingFile& PendingFile::operator=(PendingFile&& other) noexcept {
  if (this == &other) return *this;
  Discard();
  path_ = std::exchange(other.path_, {});
  temporary_path_ = std::exchange(other.temporary_path_, {});
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

absl::Status PendingFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return FileError(errno, path_, "cannot be written");
    }
  }
  return absl::OkStatus();
}

absl::Status PendingFile::Write(absl::string_view text) {
  return Write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

absl::Status PendingFile::Commit() {
  if (close(std::exchange(descriptor_, -1)) != 0) return FileError(errno, path_, "cannot be written");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) return FileError(errno, path_, "cannot be renamed to");
  temporary_path_.clear();
  return absl::OkStatus();
}

void PendingFile::Discard() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
  temporary_path_.clear();
}

}  // namespace attend::client
