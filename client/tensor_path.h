// How a command line names a tensor in a file.
#ifndef ATTEND_CLIENT_TENSOR_PATH_H_
#define ATTEND_CLIENT_TENSOR_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace attend::client {

enum class FileFormat {
  kNpy,          // one tensor, without a name
  kNpz,          // FILE ends in .npz
  kSafetensors,  // FILE ends in .safetensors
};

struct TensorPath {
  std::string file;
  FileFormat format = FileFormat::kNpy;
  std::string name = {};  // empty in an npy file

  // "q.npy" or "qkv.npz:query", as messages say it.
  std::string Text() const;
  // The file itself, however it was named: "./a", "a" and a link to it are one.
  std::string Target() const;
};

// Reads "FILE", or "FILE:NAME" where FILE ends in .npz or .safetensors: the first ".npz:" or ".safetensors:" ends the
// file's name. Every other text is an npy file, colons or not. Where no name is said, it is `default_name`. A
// UsageError for a name that is empty, not UTF-8, or cannot be in such a file: control characters in npz, the
// metadata's name in safetensors.
absl::StatusOr<TensorPath> ParseTensorPath(const std::string& text, const std::string& default_name);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_TENSOR_PATH_H_
