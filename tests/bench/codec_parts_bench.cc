// Requests from the wire to problems that can be computed, and their tensors into memory of their own.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attend/v1/attention.pb.h"
#include "core/buffer_pool.h"
#include "server/attend_codec.h"
#include "server/input_gatherer.h"

namespace attend::bench {
namespace {

// 8 heads of head_dim 64, f32, `length` queries and keys.
std::string RequestBytes(int64_t length) {
  constexpr int64_t kHeads = 8, kDim = 64;
  v1::AttendRequest request;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(), request.mutable_value()}) {
    tensor->set_data_type(v1::DATA_TYPE_FLOAT32);
    for (const int64_t axis : {int64_t{1}, kHeads, length, kDim}) tensor->add_shape(axis);
    tensor->set_data(std::string(static_cast<size_t>(kHeads * length * kDim) * sizeof(float), '\1'));
  }
  return request.SerializeAsString();
}

// As gRPC hands messages over: in slices of 8 KiB.
grpc::ByteBuffer InSlices(const std::string& bytes) {
  constexpr size_t kSlice = 8192;
  std::vector<grpc::Slice> slices;
  for (size_t first = 0; first < bytes.size(); first += kSlice) {
    slices.emplace_back(bytes.data() + first, std::min(kSlice, bytes.size() - first));
  }
  return {slices.data(), slices.size()};
}

void DecodeRequest(benchmark::State& state) {
  const std::string bytes = RequestBytes(state.range(0));
  const grpc::ByteBuffer message = InSlices(bytes);
  const server::CodecLimits limits = {.max_message_bytes = int64_t{1} << 40, .version = "bench"};
  for (auto _ : state) {
    auto parts = server::ReadAttendRequest(message);
    if (!parts.ok()) return state.SkipWithError(parts.status().ToString().c_str());
    auto request = server::DecodeAttendRequest(*std::move(parts), limits);
    if (!request.ok()) return state.SkipWithError(request.status().ToString().c_str());
    benchmark::DoNotOptimize(request);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}

// What follows: the tensors in one piece each.
void GatherInputs(benchmark::State& state) {
  const std::string bytes = RequestBytes(state.range(0));
  const grpc::ByteBuffer message = InSlices(bytes);
  const server::CodecLimits limits = {.max_message_bytes = int64_t{1} << 40, .version = "bench"};
  core::BufferPool buffers(int64_t{1} << 30);
  for (auto _ : state) {
    state.PauseTiming();
    auto parts = server::ReadAttendRequest(message);
    if (!parts.ok()) return state.SkipWithError(parts.status().ToString().c_str());
    auto request = server::DecodeAttendRequest(*std::move(parts), limits);
    if (!request.ok()) return state.SkipWithError(request.status().ToString().c_str());
    state.ResumeTiming();
    auto gatherer = server::InputGatherer::Create(request->problem, std::move(request->tensors), buffers);
    if (!gatherer.ok()) return state.SkipWithError(gatherer.status().ToString().c_str());
    while (!gatherer->Step(int64_t{1} << 20)) {
    }
    benchmark::DoNotOptimize(gatherer->inputs());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}

BENCHMARK(GatherInputs)->ArgName("N")->Arg(1024);
BENCHMARK(DecodeRequest)->ArgName("N")->Arg(16)->Arg(1024);

}  // namespace
}  // namespace attend::bench
