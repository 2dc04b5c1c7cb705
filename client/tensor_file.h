// Tensors in files, as the service takes and gives them.
#ifndef ATTEND_CLIENT_TENSOR_FILE_H_
#define ATTEND_CLIENT_TENSOR_FILE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"
#include "client/pending_file.h"
#include "client/tensor.h"
#include "client/tensor_path.h"

namespace attend::client {

// Reads a tensor. `element_type` is what its elements are to be: the file's own type if UNSPECIFIED; with a float type
// the file must have that type, or FLOAT32, which is rounded to it; with BFLOAT16 '<V2' arrays of npy and npz files are
// taken as bfloat16. Errors are those of ReadNpyFile, ReadNpzFile and ReadSafetensorsFile, and INVALID_ARGUMENT that
// names the file, its type and the one that is wanted.
absl::StatusOr<TensorView> ReadTensorFile(const TensorPath& path,
                                          v1::DataType element_type = v1::DATA_TYPE_UNSPECIFIED);

// Adds leading axes of length 1 until `shape` has four; returns how many. INVALID_ARGUMENT, naming `path`, for a shape
// of fewer than two axes or more than four.
absl::StatusOr<int> LiftToRank4(const std::string& path, std::vector<int64_t>& shape);

// The inverse: `shape` without its first `axes` axes, as far as they are of length 1.
std::vector<int64_t> DropLeadingAxes(std::vector<int64_t> shape, int axes);

// A tensor and where it goes.
struct TensorInFile {
  TensorPath path;
  TensorView tensor;
};

// Writes `tensors`, which all have the same path.file, to `file`, which is to become that: one tensor to an npy file,
// and as many as there are, with names that differ, to others. Errors are those of WriteNpy, WriteNpz and
// WriteSafetensors.
absl::Status WriteTensors(std::span<const TensorInFile> tensors, PendingFile& file);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_TENSOR_FILE_H_
