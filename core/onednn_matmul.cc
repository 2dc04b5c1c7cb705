#include "core/onednn_matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/onednn_version.h"

namespace attend::core {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using DataType = dnnl::memory::data_type;

constexpr int kRowGranule = 16;
constexpr int kRowSizes = kMaxTileRows / kRowGranule;
constexpr int kKeySizes = kKeyBlock / kKeyGranule;

// Plain panels: a whole key block, its rows 16 elements longer than the block. Rows exactly 1 or 2 KiB apart fall into
// the same few sets of the cache: products with 128-element rows lose a third.
constexpr KeyPanels kPlainPanels = {.keys = kKeyBlock, .row_stride = kKeyBlock + 16};
// What oneDNN's kernels for AVX-512 read without a copy: BA16a64b, which is [keys / 64][head_dim][64] in memory because
// head_dim is a multiple of 16.
constexpr KeyPanels kGranulePanels = {.keys = kKeyGranule, .row_stride = kKeyGranule, .or_rows = true};

absl::Status FromOnednn(const dnnl::error& error) {
  const auto text = absl::StrCat("oneDNN: ", error.what());
  return error.status == dnnl_out_of_memory ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

absl::Status FromOnednn(dnnl_status_t status) {
  if (status == dnnl_success) return absl::OkStatus();
  const auto text = absl::StrCat("oneDNN: status ", static_cast<int>(status));
  return status == dnnl_out_of_memory ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

DataType ToOnednn(ProductType type) { return type == ProductType::kFloat32 ? DataType::f32 : DataType::bf16; }

// Memory of one worker that primitives use while they run. It grows to the largest need seen.
class Scratchpad {
 public:
  Scratchpad() = default;
  Scratchpad(const Scratchpad&) = delete;
  Scratchpad& operator=(const Scratchpad&) = delete;
  ~Scratchpad() { std::free(data_); }

  // Null if memory runs out or `bytes` is 0.
  void* Reserve(size_t bytes) {
    if (bytes > size_) {
      std::free(data_);
      size_ = (bytes + 4095) / 4096 * 4096;
      data_ = std::aligned_alloc(4096, size_);
      if (data_ == nullptr) size_ = 0;
    }
    return bytes == 0 ? nullptr : data_;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// What every product of one back end shares.
struct Engine {
  explicit Engine(int workers) : engine(dnnl::engine::kind::cpu, 0), scratchpads(workers) {
    for (int i = 0; i < workers; ++i) streams.emplace_back(engine);
  }
  dnnl::engine engine;
  std::vector<dnnl::stream> streams;  // by worker
  std::vector<Scratchpad> scratchpads;
};

// One primitive with the arguments that each worker runs it with: through the C API, with four fixed arguments, which
// saves the map of arguments that the C++ API builds per call.
class Primitive {
 public:
  Primitive(std::shared_ptr<Engine> engine, const Desc& left, const Desc& right, const Desc& result, bool accumulate)
      : engine_(std::move(engine)), left_(left), right_(right), result_(result) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto description = DescribeMatmul(engine_->engine, left, right, result, attributes);
    scratchpad_ = description.scratchpad_desc();
    primitive_ = dnnl::matmul(description);
    arguments_.resize(engine_->streams.size());
  }

  absl::Status Run(int worker, const TileProduct::Operands& operands) {
    std::unique_ptr<Arguments>& arguments = arguments_[worker];
    if (arguments == nullptr) arguments = MakeArguments();
    const size_t bytes = scratchpad_.get_size();
    void* scratchpad = engine_->scratchpads[worker].Reserve(bytes);
    if (bytes > 0 && scratchpad == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for a scratchpad of ", bytes, " bytes"));
    }
    // The C API takes inputs as void*, too.
    const std::array handles = {const_cast<void*>(operands.left), const_cast<void*>(operands.right),
                                static_cast<void*>(operands.result), scratchpad};
    for (size_t i = 0; i < handles.size(); ++i) {
      if (i == 3 && bytes == 0) break;
      dnnl_memory_set_data_handle(arguments->list[i].memory, handles[i]);
    }
    return FromOnednn(
        dnnl_primitive_execute(primitive_.get(), engine_->streams[worker].get(), 4, arguments->list.data()));
  }

 private:
  struct Arguments {
    std::array<dnnl::memory, 4> memory;
    std::array<dnnl_exec_arg_t, 4> list;
  };

  std::unique_ptr<Arguments> MakeArguments() const {
    auto arguments = std::make_unique<Arguments>();
    const std::array roles = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    const std::array descriptions = {left_, right_, result_, scratchpad_};
    for (size_t i = 0; i < roles.size(); ++i) {
      arguments->memory[i] = dnnl::memory(descriptions[i], engine_->engine, nullptr);
      arguments->list[i] = {roles[i], arguments->memory[i].get()};
    }
    return arguments;
  }

  std::shared_ptr<Engine> engine_;
  Desc left_, right_, result_, scratchpad_;
  dnnl::matmul primitive_;
  std::vector<std::unique_ptr<Arguments>> arguments_;  // by worker, made and used by it alone
};

// The primitives of one product, one for each number of rows and keys, made at first use.
class OnednnProduct : public TileProduct {
 public:
  explicit OnednnProduct(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  absl::Status Run(int worker, const Operands& operands) const final {
    const int slot = ((operands.rows / kRowGranule - 1) * kKeySizes + operands.keys / kKeyGranule - 1) * 2 +
                     (operands.accumulate || operands.key_rows ? 1 : 0);
    try {
      Primitive* primitive = ready_[slot].load(std::memory_order_acquire);
      if (primitive == nullptr) primitive = Make(slot, operands);
      return primitive->Run(worker, operands);
    } catch (const dnnl::error& error) {
      return FromOnednn(error);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("no memory for a oneDNN primitive");
    }
  }

 protected:
  struct Descriptions {
    Desc left, right, result;
  };
  virtual Descriptions Describe(const Operands& operands) const = 0;

 private:
  static constexpr int kSlots = kRowSizes * kKeySizes * 2;

  Primitive* Make(int slot, const Operands& operands) const {
    const std::lock_guard lock(mutex_);
    if (owned_[slot] == nullptr) {
      const Descriptions d = Describe(operands);
      owned_[slot] = std::make_unique<Primitive>(engine_, d.left, d.right, d.result, operands.accumulate);
      ready_[slot].store(owned_[slot].get(), std::memory_order_release);
    }
    return owned_[slot].get();
  }

  std::shared_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  mutable std::array<std::unique_ptr<Primitive>, kSlots> owned_;  // guarded by mutex_
  mutable std::array<std::atomic<Primitive*>, kSlots> ready_ = {};
};

class ScoresProduct final : public OnednnProduct {
 public:
  ScoresProduct(std::shared_ptr<Engine> engine, ProductType type, int head_dim, const KeyPanels& panels)
      : OnednnProduct(std::move(engine)), type_(ToOnednn(type)), head_dim_(head_dim), panels_(panels) {}

 protected:
  Descriptions Describe(const Operands& operands) const override {
    return {.left = Desc({operands.rows, head_dim_}, type_, Tag::ab),
            .right = DescribeKeys(operands),
            .result = Desc({operands.rows, operands.keys}, DataType::f32, Tag::ab)};
  }

 private:
  Desc DescribeKeys(const Operands& operands) const {
    const dnnl::memory::dims shape = {head_dim_, operands.keys};
    if (operands.key_rows) return Desc(shape, type_, Tag::ba);
    if (panels_ == kGranulePanels) return Desc(shape, type_, Tag::BA16a64b);
    return Desc(shape, type_, dnnl::memory::dims{panels_.row_stride, 1});
  }

  const DataType type_;
  const int head_dim_;
  const KeyPanels panels_;
};

class WeightedSumProduct final : public OnednnProduct {
 public:
  WeightedSumProduct(std::shared_ptr<Engine> engine, ProductType type, int value_dim)
      : OnednnProduct(std::move(engine)), type_(ToOnednn(type)), value_dim_(value_dim) {}

 protected:
  Descriptions Describe(const Operands& operands) const override {
    return {.left = Desc({operands.rows, operands.keys}, type_, Tag::ab),
            .right = Desc({operands.keys, value_dim_}, type_, Tag::ab),
            .result = Desc({operands.rows, value_dim_}, DataType::f32, Tag::ab)};
  }

 private:
  const DataType type_;
  const int value_dim_;
};

// The products last asked for, by type and dim: clients choose dims, so what is kept must not grow with what they try.
// Jobs hold on to theirs.
class RecentProducts {
 public:
  using Key = std::pair<ProductType, int>;

  // The product for `key`, or null. Counts as a use.
  std::shared_ptr<const TileProduct> Find(const Key& key) {
    const auto found = products_.find(key);
    if (found == products_.end()) return nullptr;
    found->second.last_use = ++uses_;
    return found->second.product;
  }

  void Keep(const Key& key, std::shared_ptr<const TileProduct> product) {
    if (products_.size() == kMost) {
      products_.erase(std::min_element(products_.begin(), products_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
    }
    products_[key] = {.product = std::move(product), .last_use = ++uses_};
  }

 private:
  static constexpr size_t kMost = 32;
  struct Entry {
    std::shared_ptr<const TileProduct> product;
    uint64_t last_use = 0;
  };
  std::map<Key, Entry> products_;
  uint64_t uses_ = 0;
};

class OnednnMatmul final : public Matmul {
 public:
  explicit OnednnMatmul(int workers) : engine_(std::make_shared<Engine>(workers)) {}

  // In steps of 16, but for 32 rows: the library takes a kernel of other rounding for those where it has no AVX-512.
  int PaddedRows(int rows) const override {
    const int padded = (rows + kRowGranule - 1) / kRowGranule * kRowGranule;
    return padded == 32 ? 48 : padded;
  }

  absl::StatusOr<KeyPanels> Panels(ProductType type, int head_dim) override {
    const std::lock_guard lock(mutex_);
    return FindPanels(type, head_dim);
  }

  absl::StatusOr<std::shared_ptr<const TileProduct>> Scores(ProductType type, int head_dim) override {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const TileProduct> product = scores_.Find({type, head_dim});
    if (product != nullptr) return product;
    const absl::StatusOr<KeyPanels> panels = FindPanels(type, head_dim);
    if (!panels.ok()) return panels.status();
    product = std::make_shared<ScoresProduct>(engine_, type, head_dim, *panels);
    scores_.Keep({type, head_dim}, product);
    return product;
  }

  absl::StatusOr<std::shared_ptr<const TileProduct>> WeightedSum(ProductType type, int value_dim) override {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const TileProduct> product = weighted_sums_.Find({type, value_dim});
    if (product != nullptr) return product;
    product = std::make_shared<WeightedSumProduct>(engine_, type, value_dim);
    weighted_sums_.Keep({type, value_dim}, product);
    return product;
  }

 private:
  // Asks the library how it wants a whole key block to lie. Anything but the two layouts known here means plain rows,
  // which every version computes with.
  absl::StatusOr<KeyPanels> FindPanels(ProductType type, int head_dim) {
    if (const auto known = panels_.find({type, head_dim}); known != panels_.end()) return known->second;
    KeyPanels found = kPlainPanels;
    if (type == ProductType::kFloat32) {
      try {
        const dnnl::memory::dims shape = {head_dim, kKeyBlock};
        const auto description = DescribeMatmul(engine_->engine, Desc({kMaxTileRows, head_dim}, DataType::f32, Tag::ab),
                                                Desc(shape, DataType::f32, Tag::any),
                                                Desc({kMaxTileRows, kKeyBlock}, DataType::f32, Tag::ab), {});
        if (description.weights_desc() == Desc(shape, DataType::f32, Tag::BA16a64b)) found = kGranulePanels;
      } catch (const dnnl::error& error) {
        return FromOnednn(error);
      }
    }
    panels_[{type, head_dim}] = found;
    return found;
  }

  std::shared_ptr<Engine> engine_;
  std::mutex mutex_;  // guards what follows
  std::map<std::pair<ProductType, int>, KeyPanels> panels_;
  RecentProducts scores_;
  RecentProducts weighted_sums_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> CreateOnednnMatmul(int workers) {
  try {
    return std::make_unique<OnednnMatmul>(workers);
  } catch (const dnnl::error& error) {
    return FromOnednn(error);
  }
}

absl::Status LimitOnednn(InstructionSet set) {
  static constexpr std::array kLimits = {dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core, dnnl_cpu_isa_avx512_core_bf16,
                                         dnnl_cpu_isa_avx512_core_amx};
  if (dnnl_set_max_cpu_isa(kLimits[static_cast<size_t>(set)]) == dnnl_success) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("oneDNN is in use already and cannot be limited to ", InstructionSetName(set), " any more"));
}

std::string OnednnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace attend::core
