#include "client/tensor.h"

#include <utility>

namespace attend::client {

int64_t ElementBytes(attend::v1::DataType type) {
  switch (type) {
    case attend::v1::DATA_TYPE_FLOAT32:
      return 4;
    case attend::v1::DATA_TYPE_BFLOAT16:
    case attend::v1::DATA_TYPE_FLOAT16:
      return 2;
    case attend::v1::DATA_TYPE_BOOL:
      return 1;
    case attend::v1::DATA_TYPE_INT64:
      return 8;
    default:
      return 0;
  }
}

TensorView FloatTensorView(std::vector<int64_t> shape, std::span<const float> elements) {
  return {.data_type = attend::v1::DATA_TYPE_FLOAT32, .shape = std::move(shape), .data = std::as_bytes(elements)};
}

Tensor::Tensor(attend::v1::DataType data_type, std::vector<int64_t> shape, std::shared_ptr<const std::byte[]> data,
               size_t bytes)
    : data_type_(data_type), shape_(std::move(shape)), data_(std::move(data)), bytes_(bytes) {}

std::span<const float> Tensor::floats() const {
  if (data_type_ != attend::v1::DATA_TYPE_FLOAT32) return {};
  return {reinterpret_cast<const float*>(data_.get()), bytes_ / sizeof(float)};
}

}  // namespace attend::client
