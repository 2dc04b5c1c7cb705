// Arrays in npy files.
#ifndef ATTEND_CLIENT_NPY_FILE_H_
#define ATTEND_CLIENT_NPY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/npy_header.h"
#include "client/pending_file.h"

namespace attend::client {

// Reads a whole file. Every message starts with the path. Errors are those of InputFile, INVALID_ARGUMENT for what
// ParseNpyHeader refuses, RESOURCE_EXHAUSTED if memory runs out. Allocates what the array takes, which is never more
// than the file.
absl::StatusOr<Array> ReadNpyFile(const std::string& path, const NpyReadOptions& options = {});

// Writes header and elements. Errors are those of PendingFile::Write.
absl::Status WriteNpy(const NamedArray& array, PendingFile& file);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_NPY_FILE_H_
