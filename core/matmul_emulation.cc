#include "core/matmul_emulation.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/packing.h"

namespace attend::core {
namespace {

// Expanded operands of one worker, grown to the largest need.
struct Expanded {
  std::vector<float> left;
  std::vector<float> right;
};
using ExpandedByWorker = std::vector<Expanded>;

const float* Expand(const void* from, int64_t count, std::vector<float>& to) {
  if (static_cast<int64_t>(to.size()) < count) to.resize(static_cast<size_t>(count));
  ExpandBFloat16(static_cast<const uint16_t*>(from), count, to.data());
  return to.data();
}

class EmulatedScores final : public TileProduct {
 public:
  EmulatedScores(std::shared_ptr<const TileProduct> inner, std::shared_ptr<ExpandedByWorker> expanded, int head_dim,
                 const KeyPanels& panels)
      : inner_(std::move(inner)), expanded_(std::move(expanded)), head_dim_(head_dim), panels_(panels) {}

  absl::Status Run(int worker, const Operands& operands) const override {
    Expanded& expanded = (*expanded_)[worker];
    const int64_t panels = (operands.keys + panels_.keys - 1) / panels_.keys;
    Operands floats = operands;
    floats.left = Expand(operands.left, int64_t{operands.rows} * head_dim_, expanded.left);
    floats.right = Expand(operands.right, panels * head_dim_ * panels_.row_stride, expanded.right);
    return inner_->Run(worker, floats);
  }

 private:
  std::shared_ptr<const TileProduct> inner_;
  std::shared_ptr<ExpandedByWorker> expanded_;
  const int head_dim_;
  const KeyPanels panels_;
};

class EmulatedWeightedSum final : public TileProduct {
 public:
  EmulatedWeightedSum(std::shared_ptr<const TileProduct> inner, std::shared_ptr<ExpandedByWorker> expanded,
                      int value_dim)
      : inner_(std::move(inner)), expanded_(std::move(expanded)), value_dim_(value_dim) {}

  absl::Status Run(int worker, const Operands& operands) const override {
    Expanded& expanded = (*expanded_)[worker];
    Operands floats = operands;
    floats.left = Expand(operands.left, int64_t{operands.rows} * operands.keys, expanded.left);
    floats.right = Expand(operands.right, int64_t{operands.keys} * value_dim_, expanded.right);
    return inner_->Run(worker, floats);
  }

 private:
  std::shared_ptr<const TileProduct> inner_;
  std::shared_ptr<ExpandedByWorker> expanded_;
  const int value_dim_;
};

class EmulatedMatmul final : public Matmul {
 public:
  EmulatedMatmul(std::unique_ptr<Matmul> inner, int workers)
      : inner_(std::move(inner)), expanded_(std::make_shared<ExpandedByWorker>(workers)) {}

  int PaddedRows(int rows) const override { return inner_->PaddedRows(rows); }

  absl::StatusOr<KeyPanels> Panels(ProductType, int head_dim) override {
    return inner_->Panels(ProductType::kFloat32, head_dim);
  }

  absl::StatusOr<std::shared_ptr<const TileProduct>> Scores(ProductType type, int head_dim) override {
    auto product = inner_->Scores(ProductType::kFloat32, head_dim);
    if (type == ProductType::kFloat32 || !product.ok()) return product;
    const auto panels = Panels(type, head_dim);
    if (!panels.ok()) return panels.status();
    return std::make_shared<const EmulatedScores>(*std::move(product), expanded_, head_dim, *panels);
  }

  absl::StatusOr<std::shared_ptr<const TileProduct>> WeightedSum(ProductType type, int value_dim) override {
    auto product = inner_->WeightedSum(ProductType::kFloat32, value_dim);
    if (type == ProductType::kFloat32 || !product.ok()) return product;
    return std::make_shared<const EmulatedWeightedSum>(*std::move(product), expanded_, value_dim);
  }

 private:
  std::unique_ptr<Matmul> inner_;
  std::shared_ptr<ExpandedByWorker> expanded_;  // shared with the products, which may outlive this
};

}  // namespace

std::unique_ptr<Matmul> EmulateBFloat16(std::unique_ptr<Matmul> inner, int workers) {
  return std::make_unique<EmulatedMatmul>(std::move(inner), workers);
}

}  // namespace attend::core
