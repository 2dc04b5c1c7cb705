// Tensors in safetensors files.
#ifndef ATTEND_CLIENT_SAFETENSORS_FILE_H_
#define ATTEND_CLIENT_SAFETENSORS_FILE_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/pending_file.h"

namespace attend::client {

// Reads tensor `name`, and nothing of the others. Every message starts with the path. Errors are those of InputFile,
// NOT_FOUND if there is no such tensor, INVALID_ARGUMENT for what SafetensorsHeaderBytes and ParseSafetensorsHeader
// refuse and for an element type that is not among those of Array, RESOURCE_EXHAUSTED if memory runs out. Allocates
// what the tensor takes, which is never more than the file.
absl::StatusOr<Array> ReadSafetensorsFile(const std::string& path, const std::string& name);

// Writes a file of `arrays`; those with large elements come first, so that all are aligned. Their names are UTF-8 and
// differ. Errors are those of PendingFile::Write.
absl::Status WriteSafetensors(std::span<const NamedArray> arrays, PendingFile& file);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_SAFETENSORS_FILE_H_
