// A file that is read by position.
#ifndef ATTEND_CLIENT_INPUT_FILE_H_
#define ATTEND_CLIENT_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attend::client {

// Owns the descriptor. Movable. Every message starts with the path.
class InputFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE if the file cannot be opened, INVALID_ARGUMENT if it is no regular
  // file: a pipe's size is not known, and nobody might ever write to it.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  int64_t bytes() const { return bytes_; }

  // Fills `target` from the bytes at `offset`. INVALID_ARGUMENT if the file ends before, UNAVAILABLE if reading fails.
  absl::Status ReadAt(int64_t offset, std::span<std::byte> target) const;

  // Gives the descriptor away.
  int Release() &&;

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_INPUT_FILE_H_
