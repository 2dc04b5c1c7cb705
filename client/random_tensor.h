// Tensors of normal random numbers, made from a seed.
#ifndef ATTEND_CLIENT_RANDOM_TENSOR_H_
#define ATTEND_CLIENT_RANDOM_TENSOR_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"
#include "client/tensor.h"

namespace attend::client {

// A tensor of `type` (a float type) with independent elements of mean 0 and variance 1. The same arguments give the
// same bits. INVALID_ARGUMENT for a negative length, RESOURCE_EXHAUSTED for a shape that overflows or that memory has
// no room for, CANCELLED once `interrupted`, if given, says so: it is asked often.
absl::StatusOr<TensorView> MakeRandomTensor(v1::DataType type, const std::vector<int64_t>& shape, uint64_t seed,
                                            const std::function<bool()>& interrupted = nullptr);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_RANDOM_TENSOR_H_
