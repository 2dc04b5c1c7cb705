#include "client/npy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Status ReadError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": cannot be read: ", std::generic_category().message(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// An open file, read by position.
class OpenFile {
 public:
  static absl::StatusOr<OpenFile> Open(const std::string& path) {
    // Without O_NONBLOCK opening a pipe that nobody writes to would wait for ever.
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return ReadError(path, errno);
    OpenFile file(path, descriptor);
    struct stat status = {};
    if (fstat(descriptor, &status) != 0) return ReadError(path, errno);
    if (!S_ISREG(status.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
    }
    file.bytes_ = status.st_size;
    return file;
  }

  OpenFile(OpenFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int64_t bytes() const { return bytes_; }

  // Fills `target` from the bytes at `offset`.
  absl::Status ReadAt(int64_t offset, std::span<std::byte> target) const {
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

 private:
  OpenFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<NpyArray> ReadNpyFile(const std::string& path, const NpyReadOptions& options) {
  auto file = OpenFile::Open(path);
  if (!file.ok()) return file.status();
  std::string start(static_cast<size_t>(std::min(file->bytes(), kMaxNpyHeaderBytes)), '\0');
  absl::Status status = file->ReadAt(0, std::as_writable_bytes(std::span<char>(start)));
  if (!status.ok()) return status;
  auto header = ParseNpyHeader(start, file->bytes(), options);
  if (!header.ok()) return InFile(path, header.status());

  const auto bytes = static_cast<size_t>(header->data_bytes);
  std::shared_ptr<std::byte[]> data(new (std::nothrow) std::byte[bytes]);
  if (data == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory for ", bytes, " bytes"));
  status = file->ReadAt(header->data_offset, std::span<std::byte>(data.get(), bytes));
  if (!status.ok()) return status;
  return NpyArray{
      .type = header->type, .shape = std::move(header->shape), .data = std::move(data), .bytes = header->data_bytes};
}

absl::Status WriteNpy(NpyType type, const std::vector<int64_t>& shape, std::span<const std::byte> data,
                      PendingFile& file) {
  absl::Status status = file.Write(EncodeNpyHeader(type, shape));
  if (!status.ok()) return status;
  return file.Write(data);
}

}  // namespace attend::client
