// Arrays in npy files: what `attend infer` reads and writes.
#ifndef ATTEND_CLIENT_NPY_FILE_H_
#define ATTEND_CLIENT_NPY_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/npy_header.h"
#include "client/pending_file.h"

namespace attend::client {

struct NpyArray {
  NpyType type = NpyType::kFloat32;
  std::vector<int64_t> shape;               // outermost axis first
  std::shared_ptr<const std::byte[]> data;  // row-major, little-endian; shared: calls in flight read it
  int64_t bytes = 0;
};

// Reads a whole file. Every message starts with the path. NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE if the file
// cannot be read, INVALID_ARGUMENT for what ParseNpyHeader refuses or a file that shrinks meanwhile, RESOURCE_EXHAUSTED
// if memory runs out. Allocates what the array takes, which is never more than the file.
absl::StatusOr<NpyArray> ReadNpyFile(const std::string& path, const NpyReadOptions& options = {});

// Writes header and elements; `data` has exactly the bytes of `shape`. Errors are those of PendingFile::Write.
absl::Status WriteNpy(NpyType type, const std::vector<int64_t>& shape, std::span<const std::byte> data,
                      PendingFile& file);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_NPY_FILE_H_
