#include "server/warm_up.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/attention_problem.h"
#include "core/element_type.h"
#include "core/tiled_attention.h"

namespace attend::server {
namespace {

constexpr std::array<float, 4> kQuery = {1, 0, 0.5F, 1};
constexpr std::array<float, 12> kKey = {1, 0, 0.8F, 1, 0, 1, 0.2F, 0, 0.2F, 0.2F, 0.4F, 0.1F};
constexpr std::array<float, 12> kValue = {0.9F, 0.1F, 0.7F, 0.8F, 0.1F, 0.9F, 0.2F, 0.1F, 0.3F, 0.3F, 0.5F, 0.2F};
constexpr std::array<float, 4> kOutput = {0.6151F, 0.2941F, 0.5616F, 0.5337F};
constexpr float kTolerance = 6e-5F;  // the known output is rounded to four digits

// Large enough for the machine's full rate, small enough to be over in some milliseconds. Eight heads: enough for the
// workers of most machines, and the same problem whatever their number.
constexpr core::AttentionShape kMeasuredShape = {.batch = 1,
                                                 .query_heads = 8,
                                                 .kv_heads = 8,
                                                 .query_length = 1024,
                                                 .key_length = 1024,
                                                 .head_dim = 64,
                                                 .value_dim = 64};
constexpr absl::Duration kMeasuringTime = absl::Milliseconds(60);

// Computes one problem and waits for it.
absl::Status Run(const core::AttentionProblem& problem, const core::AttentionInputs& inputs,
                 const core::AttentionResults& results, core::ComputePool& pool, core::TileKernels& kernels) {
  absl::StatusOr<std::unique_ptr<core::TiledAttention>> source =
      core::TiledAttention::Create(problem, inputs, results, kernels);
  if (!source.ok()) return source.status();
  std::promise<absl::Status> ended;
  pool.Submit({.source = *std::move(source),
               .done = [&ended](const absl::Status& status, const core::JobTimings&) { ended.set_value(status); }});
  return ended.get_future().get();
}

// Elements of any type whose values are ordinary numbers near 1, not all the same.
std::vector<uint8_t> OrdinaryElements(int64_t bytes, core::ElementType type) {
  std::vector<uint8_t> elements(static_cast<size_t>(bytes));
  const auto step = static_cast<size_t>(core::ElementBytes(type));
  // The upper byte of 1.0 in f32 and bf16, of 1.75 in f16, and below it a few bits of mantissa.
  for (size_t i = step - 1; i < elements.size(); i += step) {
    elements[i] = 0x3f;
    elements[i - 1] = static_cast<uint8_t>(0x80 + i / step % 32);
  }
  return elements;
}

}  // namespace

absl::Status CheckKnownAnswer(core::ComputePool& pool, core::TileKernels& kernels) {
  const core::AttentionShape shape = {.query_length = 1, .key_length = 3, .head_dim = 4, .value_dim = 4};
  absl::StatusOr<core::AttentionProblem> problem = core::AttentionProblem::Create(shape, core::ElementType::kFloat32);
  if (!problem.ok()) return problem.status();
  std::array<float, 4> output = {};
  const absl::Status status = Run(*problem, {.query = kQuery.data(), .key = kKey.data(), .value = kValue.data()},
                                  {.output = output.data()}, pool, kernels);
  if (!status.ok()) return status;
  const bool is_known = std::equal(output.begin(), output.end(), kOutput.begin(),
                                   [](float got, float known) { return std::abs(got - known) <= kTolerance; });
  if (is_known) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the warm-up problem gave ", absl::StrJoin(output, ", "), ", must be ",
                                          absl::StrJoin(kOutput, ", ")));
}

absl::StatusOr<double> MeasureRate(core::ComputePool& pool, core::TileKernels& kernels) {
  const std::vector<core::ElementType> native = kernels.native_types();
  const bool has_bfloat16 = std::count(native.begin(), native.end(), core::ElementType::kBFloat16) > 0;
  const core::ElementType type = has_bfloat16 ? core::ElementType::kBFloat16 : core::ElementType::kFloat32;
  absl::StatusOr<core::AttentionProblem> problem = core::AttentionProblem::Create(kMeasuredShape, type);
  if (!problem.ok()) return problem.status();
  const std::vector<uint8_t> elements = OrdinaryElements(problem->QueryBytes(), type);
  std::vector<uint8_t> output(static_cast<size_t>(problem->OutputBytes()));
  const core::AttentionInputs inputs = {.query = elements.data(), .key = elements.data(), .value = elements.data()};

  double best = 0;
  const absl::Time start = absl::Now();
  while (best == 0 || absl::Now() - start < kMeasuringTime) {
    const absl::Time began = absl::Now();
    if (absl::Status status = Run(*problem, inputs, {.output = output.data()}, pool, kernels); !status.ok()) {
      return status;
    }
    best = std::max(best, static_cast<double>(problem->MultiplyAdds()) / absl::ToDoubleSeconds(absl::Now() - began));
  }
  return best;
}

}  // namespace attend::server
