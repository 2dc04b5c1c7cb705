// Arrays in npz files: zip archives of npy files, as numpy.savez and numpy.savez_compressed write them.
//
// Archives come from strangers. Nothing is ever unpacked to a file, so names that look like paths are names. What is
// read of an entry is what the shape in its npy header needs, and that must be what the archive says of its size.
#ifndef ATTEND_CLIENT_NPZ_FILE_H_
#define ATTEND_CLIENT_NPZ_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/npy_header.h"
#include "client/pending_file.h"

namespace attend::client {

// A compressed entry may say that it holds no more than this: what a message of gRPC can carry, so no call could take
// more. An entry that is stored as it is cannot hold more than the file.
inline constexpr int64_t kMaxInflatedBytes = (int64_t{1} << 31) - 1;

// Names are no longer: the archive has 16 bits for the length of an entry's.
inline constexpr size_t kMaxNpzNameBytes = 65535 - 4;

// Reads array `name`, which is the entry NAME.npy. Every message starts with the path. Errors are those of InputFile,
// NOT_FOUND if there is no such array, INVALID_ARGUMENT for what is no zip archive, a name that it has twice, an entry
// that is encrypted, compressed in another way than deflate, larger than it can be, damaged, or no npy file that
// ParseNpyHeader reads; RESOURCE_EXHAUSTED if memory runs out.
absl::StatusOr<Array> ReadNpzFile(const std::string& path, const std::string& name, const NpyReadOptions& options = {});

// Writes an archive of `arrays`, not compressed, in the place of what `file` holds; the same arrays give the same
// bytes. Their names differ. RESOURCE_EXHAUSTED if the disk is full, else UNAVAILABLE.
absl::Status WriteNpz(std::span<const NamedArray> arrays, const PendingFile& file);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_NPZ_FILE_H_
