// Tensors on the client's side: views of the caller's memory on the way in, owned memory on the way out.
#ifndef ATTEND_CLIENT_TENSOR_H_
#define ATTEND_CLIENT_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attend/v1/attention.pb.h"

namespace attend::client {

// Bytes of one element: 4, 2, 2, 1 and 8 for FLOAT32, BFLOAT16, FLOAT16, BOOL and INT64; 0 for anything else.
int64_t ElementBytes(attend::v1::DataType type);

// A tensor that is sent: dense, row-major, little-endian. The elements are not copied, so they must stay as they are
// until the call is over (Client::Attend has returned, or the callback of AttendAsync has been called).
struct TensorView {
  attend::v1::DataType data_type = attend::v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // product(shape) * ElementBytes(data_type); the server checks it
  // Optional: keeps `data` alive. A call whose tensors all have owners can end at its deadline even if the network
  // still holds on to the memory; one without waits for the memory to come free.
  std::shared_ptr<const void> owner = nullptr;
};

// A view of FLOAT32 elements.
TensorView FloatTensorView(std::vector<int64_t> shape, std::span<const float> elements);

// A tensor that was received. Cheap to copy: copies share the elements, which never change. Thread-safe.
class Tensor {
 public:
  // No tensor: DATA_TYPE_UNSPECIFIED, no elements.
  Tensor() = default;
  // `data` is aligned to 16 bytes.
  Tensor(attend::v1::DataType data_type, std::vector<int64_t> shape, std::shared_ptr<const std::byte[]> data,
         size_t bytes);

  // False for a result that was not asked for.
  bool present() const { return data_type_ != attend::v1::DATA_TYPE_UNSPECIFIED; }
  attend::v1::DataType data_type() const { return data_type_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  std::span<const std::byte> data() const { return {data_.get(), bytes_}; }
  // The elements of a FLOAT32 tensor; empty for every other type.
  std::span<const float> floats() const;

 private:
  attend::v1::DataType data_type_ = attend::v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape_;
  std::shared_ptr<const std::byte[]> data_;  // shared: copies of a result cost nothing
  size_t bytes_ = 0;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_TENSOR_H_
