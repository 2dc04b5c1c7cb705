// Items and their order. A head's keys and values are packed in pieces of a key block, then its blocks of queries are
// computed. Items are handed out head by head, and the packing of head h + 1 comes before the queries of head h: packed
// keys are still in the cache when they are used, and no worker waits long for packing. Packed heads live in a few
// slots that are used again, so memory does not grow with the number of heads.
//
// Batch elements with few query rows are not cut into blocks (core/decode_attention.h). They come first.
//
// A worker that got an item of queries before the last piece of its head is packed keeps it and is told to come back.
// Where few rows of queries read a head nothing is packed, and nobody waits.
#include "core/tiled_attention.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/decode_attention.h"
#include "core/packed_key_value.h"
#include "core/query_block.h"
#include "core/tile_state.h"
#include "core/tiling.h"

namespace attend::core {
namespace {

// Moving an element costs about as much as this many multiply-adds.
constexpr int64_t kPackingCost = 8;

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// A place for one packed head, used by one head after the other.
struct Slot {
  std::optional<PackedKeyValue> packed;  // made when first needed
  int64_t head = 0;
  KeyRange keys;  // that are packed
  std::atomic<int64_t> unpacked_pieces = 0;
  std::atomic<int64_t> unfinished_blocks = 0;
};

// What is to be packed, in pieces of a key block.
int64_t CountPieces(const Slot& slot, const KeyValueFormat& format) {
  if (format.in_place) return 0;
  return slot.keys.count() / kKeyBlock + (slot.keys.count() % kKeyBlock != 0 ? 1 : 0);
}

struct Item {
  enum class Kind { kNone, kPack, kQueries };
  Kind kind = Kind::kNone;
  Slot* slot = nullptr;
  int64_t index = 0;  // of the piece or block
};

// What a worker keeps of the job between its steps.
struct WorkerBlock {
  std::optional<QueryBlock> block;  // made when first needed
  Item item;                        // of kind kQueries while the worker has one
  bool begun = false;
};

// How many blocks of each turn counter of the tiling have added their weights.
using TurnCounters = std::vector<std::atomic<int64_t>>;

// Bytes of Plan and its workers, slots and queue, generously, and of what grows with results that are asked for.
int64_t BookkeepingBytes(const Tiling& tiling, int workers) {
  constexpr int64_t kBookkeepingOfAWorker = 8192;  // a round number, which clients can know
  static_assert(1024 + sizeof(WorkerBlock) <= kBookkeepingOfAWorker);
  const int64_t fixed = 4096 + int64_t{workers} * kBookkeepingOfAWorker;
  const int64_t counters = SaturatingMultiply(tiling.turn_counters(), sizeof(TurnCounters::value_type));
  return SaturatingAdd(fixed + tiling.bytes(), counters);
}

}  // namespace

int64_t PredictScratchBytes(const AttentionProblem& problem, const TileKernels& kernels) {
  const absl::StatusOr<Tiling> tiling = Tiling::Create(problem, kernels.state());
  if (!tiling.ok()) return std::numeric_limits<int64_t>::max();
  int64_t bytes = BookkeepingBytes(*tiling, kernels.workers());
  bytes = SaturatingAdd(bytes, DecodeAttention::Bytes(problem, *tiling, kernels.workers()));
  if (tiling->heads() == 0) return bytes;
  if (tiling->key_capacity() > 0) {
    const int64_t head = BufferPool::MostBytes(PackedKeyValue::Bytes(tiling->format(), tiling->key_capacity()));
    bytes = SaturatingAdd(bytes, SaturatingMultiply(head, tiling->PackedHeads(kernels.workers())));
  }
  const int64_t workers = std::min<int64_t>(tiling->total_blocks(), kernels.workers());
  return SaturatingAdd(bytes, SaturatingMultiply(BufferPool::MostBytes(QueryBlock::Bytes(*tiling)), workers));
}

class TiledAttention::Plan {
 public:
  // `tiling` is of `problem`.
  Plan(std::unique_ptr<const AttentionProblem> problem, Tiling tiling, const AttentionInputs& inputs,
       const AttentionResults& results, TileKernels::State& kernels)
      : problem_(std::move(problem)),
        tiling_(std::move(tiling)),
        inputs_(inputs),
        results_(results),
        kernels_(kernels),
        workers_(tiling_.total_blocks() > 0 ? kernels.workers() : 0),
        slots_(static_cast<size_t>(tiling_.PackedHeads(kernels.workers()))),
        turns_(static_cast<size_t>(tiling_.turn_counters())),
        unfinished_blocks_(tiling_.total_blocks()) {
    for (Slot& slot : slots_) free_slots_.push_back(&slot);
    if (tiling_.decode().heads() == 0) return;
    decode_.emplace(
        DecodeBlock::Task{.problem = problem_.get(), .tiling = &tiling_, .inputs = inputs_, .results = results_},
        kernels_);
  }

  StepResult Step(int worker);
  bool finished() const {
    if (failed_.load(std::memory_order_acquire) || (decode_.has_value() && decode_->failed())) return true;
    return unfinished_blocks_.load(std::memory_order_acquire) == 0 && (!decode_.has_value() || decode_->finished());
  }
  absl::Status status() const {
    const std::lock_guard lock(mutex_);
    return status_.ok() && decode_.has_value() ? decode_->status() : status_;
  }
  int parallelism() const {
    const int64_t items = SaturatingAdd(tiling_.total_blocks(), tiling_.decode().total());
    return static_cast<int>(std::clamp<int64_t>(items, 1, tiling_.useful_workers()));
  }
  int64_t total_multiply_adds() const { return problem_->MultiplyAdds(); }

 private:
  Item TakeItem();
  bool OpenNextHead();
  Slot* OpenHead(int64_t head);  // null, and the plan failed, if memory ran out
  StepResult Pack(const Item& item);
  StepResult Compute(int worker, WorkerBlock& mine);
  bool BeginBlock(WorkerBlock& mine);
  bool MustWait(const WorkerBlock& mine) const;
  void FinishBlock(WorkerBlock& mine);
  void Fail(const absl::Status& status);
  SourceRows KeysOf(const Slot& slot) const;
  SourceRows ValuesOf(const Slot& slot) const;

  const std::unique_ptr<const AttentionProblem> problem_;  // where the tiling looks for it
  const Tiling tiling_;
  const AttentionInputs inputs_;
  const AttentionResults results_;
  TileKernels::State& kernels_;
  std::vector<WorkerBlock> workers_;  // each used by its worker alone
  std::vector<Slot> slots_;
  TurnCounters turns_;
  std::optional<DecodeAttention> decode_;  // the batch elements that are decode
  std::atomic<int64_t> unfinished_blocks_;
  std::atomic<bool> failed_ = false;

  mutable std::mutex mutex_;  // guards what follows
  absl::Status status_;
  std::vector<Slot*> free_slots_;
  Slot* packing_ = nullptr;  // the head whose pieces are being handed out
  int64_t next_head_ = 0;
  int64_t next_piece_ = 0;
  int64_t next_block_ = 0;
  std::deque<Slot*> open_;  // heads with no pieces, but blocks to hand out: at most two
};

Slot* TiledAttention::Plan::OpenHead(int64_t head) {
  Slot* const slot = free_slots_.back();
  const int64_t b = head / problem_->shape().kv_heads;
  slot->head = head;
  slot->keys = tiling_.PackedKeys(b);
  slot->unpacked_pieces = CountPieces(*slot, tiling_.format());
  slot->unfinished_blocks = tiling_.Blocks(b);
  if (tiling_.format().in_place) {
    slot->packed = PackedKeyValue::InPlace(tiling_.format(), KeysOf(*slot), ValuesOf(*slot));
  } else if (slot->keys.count() > 0 && !slot->packed.has_value()) {
    absl::StatusOr<PackedKeyValue> packed =
        PackedKeyValue::Create(tiling_.format(), tiling_.key_capacity(), kernels_.buffers());
    if (!packed.ok()) {
      if (status_.ok()) status_ = packed.status();
      failed_.store(true, std::memory_order_release);
      return nullptr;
    }
    slot->packed = *std::move(packed);
  }
  if (slot->keys.count() > 0 && tiling_.format().share_values) slot->packed->ShareValues(ValuesOf(*slot));
  free_slots_.pop_back();
  return slot;
}

// The next head that has queries becomes the one whose pieces are handed out. False if memory ran out.
bool TiledAttention::Plan::OpenNextHead() {
  const int64_t kv_heads = problem_->shape().kv_heads;
  while (next_head_ < tiling_.heads() && tiling_.Blocks(next_head_ / kv_heads) == 0) next_head_ += kv_heads;
  if (next_head_ >= tiling_.heads()) return true;
  packing_ = OpenHead(next_head_);
  if (packing_ == nullptr) return false;
  ++next_head_;
  next_piece_ = 0;
  return true;
}

Item TiledAttention::Plan::TakeItem() {
  const std::lock_guard lock(mutex_);
  if (packing_ == nullptr && open_.size() < 2 && !OpenNextHead()) return {};
  Item item;
  if (packing_ != nullptr) {
    const int64_t pieces = CountPieces(*packing_, tiling_.format());
    if (pieces > 0) item = {.kind = Item::Kind::kPack, .slot = packing_, .index = next_piece_++};
    if (next_piece_ == pieces) {
      open_.push_back(packing_);
      packing_ = nullptr;
    }
    if (pieces > 0) return item;
  }
  if (open_.empty()) return {};
  // Under a causal mask the last blocks are the longest: they go first, so that the workers end together. Blocks that
  // take turns are handed out in their order: whoever waits does so for one that was handed out before.
  const bool longest_last = problem_->options().causal != CausalAlignment::kNone && turns_.empty();
  const int64_t blocks = tiling_.Blocks(open_.front()->head / problem_->shape().kv_heads);
  const int64_t block = longest_last ? blocks - 1 - next_block_ : next_block_;
  item = {.kind = Item::Kind::kQueries, .slot = open_.front(), .index = block};
  if (++next_block_ == blocks) {
    next_block_ = 0;
    open_.pop_front();
  }
  return item;
}

TileSource::StepResult TiledAttention::Plan::Step(int worker) {
  if (finished()) return {};
  if (decode_.has_value()) {
    const StepResult result = decode_->Step(worker);
    if (result.outcome != Outcome::kExhausted || workers_.empty()) return result;
  }
  WorkerBlock& mine = workers_[worker];
  if (mine.item.kind == Item::Kind::kNone) {
    const Item item = TakeItem();
    if (item.kind == Item::Kind::kNone) return {};
    if (item.kind == Item::Kind::kPack) return Pack(item);
    mine.item = item;
    mine.begun = false;
  }
  return Compute(worker, mine);
}

SourceRows TiledAttention::Plan::KeysOf(const Slot& slot) const {
  const int64_t kv_heads = problem_->shape().kv_heads;
  const int64_t first = problem_->KeyIndex(slot.head / kv_heads, slot.head % kv_heads, slot.keys.begin);
  return {.first = static_cast<const std::byte*>(inputs_.key) + first * ElementBytes(problem_->type()),
          .stride = problem_->KeyStrides().row,
          .count = slot.keys.count(),
          .dim = tiling_.format().head_dim,
          .type = problem_->type()};
}

SourceRows TiledAttention::Plan::ValuesOf(const Slot& slot) const {
  const int64_t kv_heads = problem_->shape().kv_heads;
  const int64_t first = problem_->ValueIndex(slot.head / kv_heads, slot.head % kv_heads, slot.keys.begin);
  return {.first = static_cast<const std::byte*>(inputs_.value) + first * ElementBytes(problem_->type()),
          .stride = problem_->ValueStrides().row,
          .count = slot.keys.count(),
          .dim = tiling_.format().value_dim,
          .type = problem_->type()};
}

TileSource::StepResult TiledAttention::Plan::Pack(const Item& item) {
  Slot& slot = *item.slot;
  const KeyValueFormat& format = tiling_.format();
  slot.packed->PackBlock(item.index, KeysOf(slot), ValuesOf(slot));
  slot.unpacked_pieces.fetch_sub(1, std::memory_order_acq_rel);
  const int64_t keys = std::min<int64_t>(slot.keys.count() - item.index * kKeyBlock, kKeyBlock);
  return {.outcome = Outcome::kAdvanced,
          .multiply_adds = keys * (format.head_dim + format.value_dim) * kPackingCost,
          .packing = true};
}

// False, and the plan failed, if memory ran out.
bool TiledAttention::Plan::BeginBlock(WorkerBlock& mine) {
  const Slot& slot = *mine.item.slot;
  if (!mine.block.has_value()) {
    const QueryBlock::Task task = {
        .problem = problem_.get(), .tiling = &tiling_, .inputs = inputs_, .results = results_};
    absl::StatusOr<QueryBlock> block = QueryBlock::Create(task, kernels_.buffers());
    if (!block.ok()) {
      Fail(block.status());
      return false;
    }
    mine.block = *std::move(block);
  }
  mine.block->Begin(tiling_.PlaceOf(slot.head, mine.item.index),
                    {.packed = slot.keys.count() > 0 ? &*slot.packed : nullptr, .first_key = slot.keys.begin});
  mine.begun = true;
  return true;
}

// Whether the block is about to add weights, and it is another's turn.
bool TiledAttention::Plan::MustWait(const WorkerBlock& mine) const {
  if (turns_.empty() || !mine.block->in_weights()) return false;
  const Tiling::Turn turn = tiling_.TurnOf(mine.item.slot->head, mine.item.index);
  return turns_[turn.counter].load(std::memory_order_acquire) != turn.turn;
}

TileSource::StepResult TiledAttention::Plan::Compute(int worker, WorkerBlock& mine) {
  if (!mine.begun) {
    if (mine.item.slot->unpacked_pieces.load(std::memory_order_acquire) > 0) return {.outcome = Outcome::kBlocked};
    if (!BeginBlock(mine)) return {};
  }
  if (MustWait(mine)) return {.outcome = Outcome::kBlocked};
  const absl::StatusOr<int64_t> multiply_adds = mine.block->Advance(kernels_, worker);
  if (!multiply_adds.ok()) {
    Fail(multiply_adds.status());
    return {};
  }
  if (mine.block->done()) FinishBlock(mine);
  return {.outcome = Outcome::kAdvanced, .multiply_adds = *multiply_adds};
}

void TiledAttention::Plan::FinishBlock(WorkerBlock& mine) {
  Slot* const slot = mine.item.slot;
  if (!turns_.empty()) {
    turns_[tiling_.TurnOf(slot->head, mine.item.index).counter].fetch_add(1, std::memory_order_acq_rel);
  }
  mine.item = {};
  if (slot->unfinished_blocks.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(slot);
  }
  unfinished_blocks_.fetch_sub(1, std::memory_order_acq_rel);
}

void TiledAttention::Plan::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(true, std::memory_order_release);
}

absl::StatusOr<std::unique_ptr<TiledAttention>> TiledAttention::Create(AttentionProblem problem,
                                                                       const AttentionInputs& inputs,
                                                                       const AttentionResults& results,
                                                                       TileKernels& kernels) {
  auto owned = std::make_unique<const AttentionProblem>(std::move(problem));
  absl::StatusOr<Tiling> tiling = Tiling::Create(*owned, kernels.state());
  if (!tiling.ok()) return tiling.status();
  auto plan = std::make_unique<Plan>(std::move(owned), *std::move(tiling), inputs, results, kernels.state());
  return std::unique_ptr<TiledAttention>(new TiledAttention(std::move(plan)));
}

TiledAttention::TiledAttention(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}

TiledAttention::~TiledAttention() = default;

TileSource::StepResult TiledAttention::Step(int worker) { return plan_->Step(worker); }
bool TiledAttention::finished() const { return plan_->finished(); }
absl::Status TiledAttention::status() const { return plan_->status(); }
int TiledAttention::parallelism() const { return plan_->parallelism(); }
int64_t TiledAttention::total_multiply_adds() const { return plan_->total_multiply_adds(); }

}  // namespace attend::core
