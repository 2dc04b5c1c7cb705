// A file that is written under a temporary name and appears under its own only when it is whole.
#ifndef ATTEND_CLIENT_PENDING_FILE_H_
#define ATTEND_CLIENT_PENDING_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attend::client {

// Owns the temporary file, which is in the folder of the final one and is removed unless Commit succeeds. Movable, not
// thread-safe. Every message starts with the final path.
class PendingFile {
 public:
  // OK if Create for `path` can be expected to succeed, else its error. Leaves no trace: to be asked before long work.
  static absl::Status Check(const std::string& path);

  // FAILED_PRECONDITION if `path` is there and no regular file (a symbolic link is followed), else the error of
  // opening: NOT_FOUND without its folder, PERMISSION_DENIED, UNAVAILABLE.
  static absl::StatusOr<PendingFile> Create(const std::string& path);

  ~PendingFile();
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&& other) noexcept;

  // Appends. RESOURCE_EXHAUSTED if the disk is full, else UNAVAILABLE.
  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Write(absl::string_view text);

  // Closes and renames, in place of what had the name before. Nothing may be written after it.
  absl::Status Commit();

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_path_; }

 private:
  PendingFile(std::string path, std::string temporary_path, int descriptor);
  void Discard();

  std::string path_;            // with symbolic links resolved
  std::string temporary_path_;  // empty: nothing to remove
  int descriptor_ = -1;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_PENDING_FILE_H_
