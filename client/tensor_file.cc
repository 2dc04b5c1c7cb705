#include "client/tensor_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/element_rounding.h"
#include "client/npy_file.h"
#include "client/npz_file.h"
#include "client/safetensors_file.h"

namespace attend::client {
namespace {

v1::DataType DataTypeOf(ArrayType type) {
  switch (type) {
    case ArrayType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case ArrayType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case ArrayType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case ArrayType::kBool:
      return v1::DATA_TYPE_BOOL;
    case ArrayType::kInt64:
      return v1::DATA_TYPE_INT64;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

absl::StatusOr<ArrayType> ArrayTypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FLOAT32:
      return ArrayType::kFloat32;
    case v1::DATA_TYPE_FLOAT16:
      return ArrayType::kFloat16;
    case v1::DATA_TYPE_BFLOAT16:
      return ArrayType::kBFloat16;
    case v1::DATA_TYPE_BOOL:
      return ArrayType::kBool;
    case v1::DATA_TYPE_INT64:
      return ArrayType::kInt64;
    default:
      return absl::InternalError(absl::StrCat("a tensor of type ", type, " has no npy type"));
  }
}

absl::StatusOr<Array> ReadArray(const TensorPath& path, const NpyReadOptions& options) {
  switch (path.format) {
    case FileFormat::kNpy:
      return ReadNpyFile(path.file, options);
    case FileFormat::kNpz:
      return ReadNpzFile(path.file, path.name, options);
    case FileFormat::kSafetensors:
      return ReadSafetensorsFile(path.file, path.name);
  }
  return absl::InternalError("a file of no format");
}

}  // namespace

absl::StatusOr<TensorView> ReadTensorFile(const TensorPath& path, v1::DataType element_type) {
  auto array = ReadArray(path, {.two_byte_void_is_bfloat16 = element_type == v1::DATA_TYPE_BFLOAT16});
  if (!array.ok()) return array.status();
  const v1::DataType type = DataTypeOf(array->type);
  const std::span<const std::byte> data(array->data.get(), static_cast<size_t>(array->bytes));
  if (element_type == v1::DATA_TYPE_UNSPECIFIED || element_type == type) {
    return TensorView{
        .data_type = type, .shape = std::move(array->shape), .data = data, .owner = std::move(array->data)};
  }
  if (type != v1::DATA_TYPE_FLOAT32 || !IsFloatType(element_type)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.Text(), ": holds ", DataTypeName(type), ", must be ", DataTypeName(element_type),
                     IsFloatType(element_type) ? " (or f32, which is rounded to it)" : ""));
  }
  return RoundTensor(element_type, std::move(array->shape), WidenElements(type, data));
}

absl::StatusOr<int> LiftToRank4(const std::string& path, std::vector<int64_t>& shape) {
  if (shape.size() < 2 || shape.size() > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": shape is ", ShapeText(shape), ", must have 2, 3 or 4 axes"));
  }
  const size_t missing = 4 - shape.size();
  shape.insert(shape.begin(), missing, 1);
  return static_cast<int>(missing);
}

std::vector<int64_t> DropLeadingAxes(std::vector<int64_t> shape, int axes) {
  while (axes-- > 0 && !shape.empty() && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

absl::Status WriteTensors(std::span<const TensorInFile> tensors, PendingFile& file) {
  std::vector<NamedArray> arrays;
  for (const auto& [path, tensor] : tensors) {
    const auto type = ArrayTypeOf(tensor.data_type);
    if (!type.ok()) return type.status();
    arrays.push_back({.name = path.name, .type = *type, .shape = tensor.shape, .data = tensor.data});
  }
  switch (tensors.front().path.format) {
    case FileFormat::kNpy:
      return WriteNpy(arrays.front(), file);
    case FileFormat::kNpz:
      return WriteNpz(arrays, file);
    case FileFormat::kSafetensors:
      return WriteSafetensors(arrays, file);
  }
  return absl::InternalError("a file of no format");
}

}  // namespace attend::client
