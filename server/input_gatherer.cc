#include "server/input_gatherer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/element_type.h"

namespace attend::server {
namespace {

// Larger tensors are copied even where they could stay: what stays counts against gRPC's memory quota, which is sized
// for what is being received, until the request is computed.
constexpr int64_t kInPlaceBytes = int64_t{64} << 10;

}  // namespace

absl::StatusOr<InputGatherer> InputGatherer::Create(const core::AttentionProblem& problem, RequestTensors tensors,
                                                    core::BufferPool& buffers) {
  InputGatherer result;
  const auto alignment = static_cast<size_t>(core::ElementBytes(problem.type()));
  const core::ElementType bias_type = problem.options().bias ? problem.options().bias->type : problem.type();
  const void* mask = nullptr;
  struct Arrival {
    wire::BulkBytes& bytes;
    size_t alignment;
    const void*& place;
  };
  const Arrival arrivals[] = {
      {tensors.query, alignment, result.inputs_.query},
      {tensors.key, alignment, result.inputs_.key},
      {tensors.value, alignment, result.inputs_.value},
      {tensors.mask, 1, mask},
      {tensors.bias, static_cast<size_t>(core::ElementBytes(bias_type)), result.inputs_.bias},
  };
  for (size_t i = 0; i < result.tensors_.size(); ++i) {
    Tensor& tensor = result.tensors_[i];
    const Arrival& arrival = arrivals[i];
    const int64_t bytes = arrival.bytes.size();
    if (bytes == 0) continue;
    const std::byte* const in_place = bytes <= kInPlaceBytes ? arrival.bytes.InPlace(arrival.alignment) : nullptr;
    if (in_place != nullptr) {
      arrival.place = in_place;
      tensor.in_place = std::move(arrival.bytes);
      continue;
    }
    tensor.copy = buffers.Acquire(bytes);
    if (tensor.copy.size() != bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of inputs"));
    }
    arrival.place = tensor.copy.data();
    tensor.gatherer = wire::BulkGatherer(std::move(arrival.bytes), tensor.copy.data());
  }
  result.inputs_.mask = static_cast<const uint8_t*>(mask);
  return result;
}

bool InputGatherer::Step(int64_t max_bytes) {
  int64_t left = max_bytes;
  for (Tensor& tensor : tensors_) {
    if (left <= 0) break;
    if (!tensor.gatherer.done()) left -= tensor.gatherer.Step(left);
  }
  return done();
}

bool InputGatherer::done() const { return remaining_bytes() == 0; }

int64_t InputGatherer::remaining_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors_) bytes += tensor.gatherer.remaining();
  return bytes;
}

}  // namespace attend::server
