#include "client/tensor_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/element_rounding.h"
#include "client/npy_file.h"

namespace attend::client {
namespace {

v1::DataType DataTypeOf(NpyType type) {
  switch (type) {
    case NpyType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case NpyType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case NpyType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case NpyType::kBool:
      return v1::DATA_TYPE_BOOL;
    case NpyType::kInt64:
      return v1::DATA_TYPE_INT64;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

absl::StatusOr<NpyType> NpyTypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FLOAT32:
      return NpyType::kFloat32;
    case v1::DATA_TYPE_FLOAT16:
      return NpyType::kFloat16;
    case v1::DATA_TYPE_BFLOAT16:
      return NpyType::kBFloat16;
    case v1::DATA_TYPE_BOOL:
      return NpyType::kBool;
    case v1::DATA_TYPE_INT64:
      return NpyType::kInt64;
    default:
      return absl::InternalError(absl::StrCat("a tensor of type ", type, " has no npy type"));
  }
}

absl::Status WriteElements(v1::DataType data_type, const std::vector<int64_t>& shape, std::span<const std::byte> data,
                           PendingFile& file) {
  const auto type = NpyTypeOf(data_type);
  if (!type.ok()) return type.status();
  return WriteNpy(*type, shape, data, file);
}

}  // namespace

absl::StatusOr<TensorView> ReadTensorFile(const std::string& path, v1::DataType element_type) {
  auto array = ReadNpyFile(path, {.two_byte_void_is_bfloat16 = element_type == v1::DATA_TYPE_BFLOAT16});
  if (!array.ok()) return array.status();
  const v1::DataType type = DataTypeOf(array->type);
  const std::span<const std::byte> data(array->data.get(), static_cast<size_t>(array->bytes));
  if (element_type == v1::DATA_TYPE_UNSPECIFIED || element_type == type) {
    return TensorView{
        .data_type = type, .shape = std::move(array->shape), .data = data, .owner = std::move(array->data)};
  }
  if (type != v1::DATA_TYPE_FLOAT32 || !IsFloatType(element_type)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", DataTypeName(type), ", must be ", DataTypeName(element_type),
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

absl::Status WriteTensor(const Tensor& tensor, const std::vector<int64_t>& shape, PendingFile& file) {
  return WriteElements(tensor.data_type(), shape, tensor.data(), file);
}

absl::Status WriteTensor(const TensorView& tensor, PendingFile& file) {
  return WriteElements(tensor.data_type, tensor.shape, tensor.data, file);
}

}  // namespace attend::client
