#include "core/tile_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include <hwy/targets.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/matmul_emulation.h"
#include "core/onednn_matmul.h"
#include "core/scores_tile.h"
#include "core/tile_state.h"

namespace attend::core {
namespace {

std::string LimitName(std::optional<InstructionSet> limit) {
  return limit.has_value() ? std::string(InstructionSetName(*limit)) : "none";
}

// Limits oneDNN and Highway. Both keep one limit per process and obey it only before their first use, so this does,
// too.
absl::Status LimitInstructions(std::optional<InstructionSet> limit, InstructionSet detected) {
  static std::mutex mutex;
  static bool decided = false;
  static std::optional<InstructionSet> decision;
  const std::lock_guard lock(mutex);
  if (decided) {
    if (!limit.has_value() || limit == decision) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "max_instruction_set is ", LimitName(limit), ", but this process already computes with ", LimitName(decision)));
  }
  if (limit.has_value() && *limit < detected) {
    if (absl::Status limited = LimitOnednn(*limit); !limited.ok()) return limited;
    if (*limit < InstructionSet::kAvx512) hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  }
  decided = true;
  decision = limit;
  return absl::OkStatus();
}

absl::StatusOr<TileWorkspace> MakeWorkspace(bool native_bfloat16, BufferPool& buffers) {
  constexpr int64_t kElements = int64_t{kMaxTileRows} * kKeyBlock;
  constexpr int64_t kScoresBytes = kElements * static_cast<int64_t>(sizeof(float));
  constexpr int64_t kWeightsBytes = kElements * static_cast<int64_t>(sizeof(uint16_t));
  constexpr int64_t kVisibleBytes = int64_t{kMaxTileRows} * kBlockGranules * static_cast<int64_t>(sizeof(uint64_t));
  const int64_t bytes = kScoresBytes + kVisibleBytes + (native_bfloat16 ? kWeightsBytes : 0);
  TileWorkspace workspace;
  workspace.memory = buffers.Acquire(bytes);
  if (workspace.memory.size() != bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of a worker's tiles"));
  }
  workspace.scores = reinterpret_cast<float*>(workspace.memory.data());
  workspace.visible = reinterpret_cast<uint64_t*>(workspace.memory.data() + kScoresBytes);
  std::byte* const rest = workspace.memory.data() + kScoresBytes + kVisibleBytes;
  if (native_bfloat16) workspace.weights = reinterpret_cast<uint16_t*>(rest);
  return workspace;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TileKernels>> TileKernels::Create(const Options& options) {
  if (options.workers < 1) {
    return absl::InvalidArgumentError(absl::StrCat("workers is ", options.workers, ", must be at least 1"));
  }
  const absl::StatusOr<InstructionSet> detected = DetectInstructionSet();
  if (!detected.ok()) return detected.status();
  const std::optional<InstructionSet> limit = options.max_instruction_set;
  if (absl::Status limited = LimitInstructions(limit, *detected); !limited.ok()) return limited;

  absl::StatusOr<std::unique_ptr<Matmul>> matmul = CreateOnednnMatmul(options.workers);
  if (!matmul.ok()) return matmul.status();
  const InstructionSet used = std::min(*detected, limit.value_or(*detected));
  const bool emulated =
      limit.has_value() && *limit >= InstructionSet::kAvx512Bf16 && *detected < InstructionSet::kAvx512Bf16;
  if (emulated) matmul = EmulateBFloat16(*std::move(matmul), options.workers);
  const bool native_bfloat16 = emulated || used >= InstructionSet::kAvx512Bf16;

  std::vector<TileWorkspace> workspaces;
  for (int i = 0; i < options.workers; ++i) {
    absl::StatusOr<TileWorkspace> workspace = MakeWorkspace(native_bfloat16, *options.buffers);
    if (!workspace.ok()) return workspace.status();
    workspaces.push_back(*std::move(workspace));
  }
  auto state = std::make_unique<State>(options, used, native_bfloat16, *std::move(matmul), std::move(workspaces));
  return std::unique_ptr<TileKernels>(new TileKernels(std::move(state)));
}

TileKernels::TileKernels(std::unique_ptr<State> state) : state_(std::move(state)) {}

TileKernels::~TileKernels() = default;

int TileKernels::workers() const { return state_->workers(); }

InstructionSet TileKernels::instruction_set() const { return state_->instruction_set(); }

std::vector<ElementType> TileKernels::native_types() const {
  std::vector<ElementType> types = {ElementType::kFloat32};
  if (state_->product_type(ElementType::kBFloat16) == ProductType::kBFloat16) types.push_back(ElementType::kBFloat16);
  return types;
}

std::string TileKernels::OneDnnVersion() { return OnednnVersion(); }

}  // namespace attend::core
