#include "tests/bench/core_attention.h"

#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "core/tiled_attention.h"

namespace attend::bench {
namespace {

// Numbers are drawn once and repeated: drawing every element of a large tensor would take longer than attention does.
// The count is odd, so that rows do not repeat.
std::vector<uint8_t> NormalNumbers(core::ElementType type, uint32_t seed) {
  constexpr size_t kCount = 99'991;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint8_t> bytes(kCount * static_cast<size_t>(core::ElementBytes(type)));
  for (size_t i = 0; i < kCount; ++i) {
    const float number = normal(random);
    const uint16_t half =
        type == core::ElementType::kFloat16 ? core::FloatToFloat16(number) : core::FloatToBFloat16(number);
    if (type == core::ElementType::kFloat32) {
      std::memcpy(bytes.data() + 4 * i, &number, sizeof(number));
    } else {
      std::memcpy(bytes.data() + 2 * i, &half, sizeof(half));
    }
  }
  return bytes;
}

std::vector<uint8_t> Tensor(core::ElementType type, int64_t bytes, uint32_t seed) {
  const std::vector<uint8_t> numbers = NormalNumbers(type, seed);
  std::vector<uint8_t> tensor(static_cast<size_t>(bytes));
  for (size_t first = 0; first < tensor.size(); first += numbers.size()) {
    std::memcpy(tensor.data() + first, numbers.data(), std::min(numbers.size(), tensor.size() - first));
  }
  return tensor;
}

}  // namespace

ProblemTensors::ProblemTensors(core::AttentionProblem problem)
    : problem_(std::move(problem)),
      query_(Tensor(problem_.type(), problem_.QueryBytes(), 1)),
      key_(Tensor(problem_.type(), problem_.KeyBytes(), 2)),
      value_(Tensor(problem_.type(), problem_.ValueBytes(), 3)),
      output_(static_cast<size_t>(problem_.OutputBytes())) {}

core::AttentionInputs ProblemTensors::inputs() const {
  return {.query = query_.data(), .key = key_.data(), .value = value_.data()};
}

core::AttentionResults ProblemTensors::results() { return {.output = output_.data()}; }

int64_t ProblemTensors::bytes() const {
  return static_cast<int64_t>(query_.size() + key_.size() + value_.size() + output_.size());
}

absl::StatusOr<std::unique_ptr<CoreEngine>> CoreEngine::Create(int workers, std::optional<core::InstructionSet> most) {
  auto engine = std::unique_ptr<CoreEngine>(new CoreEngine());
  auto kernels =
      core::TileKernels::Create({.workers = workers, .max_instruction_set = most, .buffers = &engine->buffers_});
  if (!kernels.ok()) return kernels.status();
  engine->kernels_ = *std::move(kernels);
  auto pool = core::ComputePool::Create({.workers = workers});
  if (!pool.ok()) return pool.status();
  engine->pool_ = *std::move(pool);
  return engine;
}

absl::Status CoreEngine::Run(ProblemTensors& tensors) {
  auto source = core::TiledAttention::Create(tensors.problem(), tensors.inputs(), tensors.results(), *kernels_);
  return source.ok() ? pool_->Run({.source = *std::move(source)}) : source.status();
}

absl::Status CoreEngine::Submit(ProblemTensors& tensors) {
  auto source = core::TiledAttention::Create(tensors.problem(), tensors.inputs(), tensors.results(), *kernels_);
  if (!source.ok()) return source.status();
  const uint64_t before = ended_;
  pool_->Submit({.source = *std::move(source), .done = [this](const absl::Status& status, const core::JobTimings&) {
                   outcome_ = status;
                   ++ended_;
                   ended_.notify_one();
                 }});
  ended_.wait(before);
  return outcome_;
}

}  // namespace attend::bench
