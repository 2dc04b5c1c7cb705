#include "core/decode_attention.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::core {
namespace {

using Outcome = TileSource::Outcome;
using StepResult = TileSource::StepResult;

// Neighbouring splits go to one worker, which fetches keys beyond the one at hand, but each gets this many turns.
constexpr int64_t kTurns = 4;

int64_t SplitsAtOnce(const DecodeSplits& splits, int workers) {
  return std::clamp<int64_t>(splits.total() / (kTurns * workers), 1, std::max<int64_t>(splits.max_count(), 1));
}

int64_t SlotBytes(const AttentionProblem& problem, const DecodeSplits& splits) {
  const auto value_dim = problem.results().omit_output ? 0 : static_cast<int>(problem.shape().value_dim);
  return splits.max_count() * DecodeSums::Bytes(splits.max_rows(), value_dim);
}

int64_t CountTurns(const AttentionProblem& problem) {
  return problem.results().average_weights_over_heads ? problem.shape().batch : 0;
}

// Every worker that has something to do has it of one head at most.
int64_t CountSlots(const DecodeSplits& splits, int workers) { return std::min<int64_t>(splits.heads(), workers); }

}  // namespace

int64_t DecodeAttention::Bytes(const AttentionProblem& problem, const Tiling& tiling, int workers) {
  const DecodeSplits& splits = tiling.decode();
  if (splits.heads() == 0) return 0;
  constexpr int64_t kBookkeepingOfAWorker = 8192;  // a round number, which clients can know
  static_assert(sizeof(Worker) + sizeof(Slot) <= kBookkeepingOfAWorker);
  int64_t bytes = 4096 + workers * kBookkeepingOfAWorker;
  bytes += CountTurns(problem) * static_cast<int64_t>(sizeof(int64_t));
  bytes += CountSlots(splits, workers) * BufferPool::MostBytes(SlotBytes(problem, splits));
  const int64_t useful = std::min<int64_t>(splits.total(), workers);
  return bytes + useful * BufferPool::MostBytes(DecodeBlock::Bytes(problem, splits));
}

DecodeAttention::DecodeAttention(const DecodeBlock::Task& task, TileKernels::State& kernels)
    : task_(task),
      kernels_(kernels),
      splits_at_once_(SplitsAtOnce(task.tiling->decode(), kernels.workers())),
      workers_(kernels.workers()),
      slots_(static_cast<size_t>(CountSlots(task.tiling->decode(), kernels.workers()))),
      turns_(static_cast<size_t>(task.tiling->decode().heads() > 0 ? CountTurns(*task.problem) : 0)),
      unfinished_splits_(task.tiling->decode().total()) {
  for (Slot& slot : slots_) free_slots_.push_back(&slot);
}

absl::Status DecodeAttention::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void DecodeAttention::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(true, std::memory_order_release);
}

DecodeSums DecodeAttention::SumsOf(const Slot& slot, int64_t split) const {
  const AttentionProblem& problem = *task_.problem;
  const int rows = task_.tiling->decode().Rows(BatchOf(slot));
  const auto value_dim = problem.results().omit_output ? 0 : static_cast<int>(problem.shape().value_dim);
  return DecodeSums::At(slot.memory.data() + split * DecodeSums::Bytes(rows, value_dim), rows, value_dim);
}

// The next head becomes the one whose splits are handed out. False if there is none.
bool DecodeAttention::OpenNextHead() {
  const int64_t kv_heads = task_.problem->shape().kv_heads;
  while (next_head_ < task_.tiling->decode().heads() && task_.tiling->decode().Rows(next_head_ / kv_heads) == 0)
    next_head_ += kv_heads;
  if (next_head_ >= task_.tiling->decode().heads()) return false;
  open_ = free_slots_.back();
  free_slots_.pop_back();
  open_->head = next_head_++;
  open_->unfinished = task_.tiling->decode().Count(BatchOf(*open_));
  next_split_ = 0;
  return true;
}

// False if nothing is left, or memory ran out.
bool DecodeAttention::Take(Worker& mine) {
  const std::lock_guard lock(mutex_);
  if (open_ == nullptr && !OpenNextHead()) return false;
  if (open_->memory.size() == 0) {
    const int64_t bytes = SlotBytes(*task_.problem, task_.tiling->decode());
    open_->memory = kernels_.buffers().Acquire(bytes);
    if (open_->memory.size() != bytes) {
      if (status_.ok()) status_ = absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of sums"));
      failed_.store(true, std::memory_order_release);
      return false;
    }
  }
  const int64_t count = task_.tiling->decode().Count(BatchOf(*open_));
  mine.slot = open_;
  mine.split = next_split_;
  mine.end_split = std::min(count, next_split_ + splits_at_once_);
  mine.next_key = -1;
  mine.finishing = false;
  next_split_ = mine.end_split;
  if (next_split_ == count) open_ = nullptr;
  return true;
}

// False if memory ran out.
bool DecodeAttention::Begin(Worker& mine) {
  if (!mine.block.has_value()) {
    absl::StatusOr<DecodeBlock> block = DecodeBlock::Create(task_, kernels_.buffers());
    if (!block.ok()) {
      Fail(block.status());
      return false;
    }
    mine.block = *std::move(block);
  }
  mine.block->Begin(mine.slot->head);
  return true;
}

StepResult DecodeAttention::Step(int worker) {
  if (finished()) return {};
  Worker& mine = workers_[worker];
  if (mine.slot == nullptr && !(Take(mine) && Begin(mine))) return {};
  StepResult result = {.outcome = Outcome::kAdvanced};
  if (!mine.finishing) {
    Advance(mine, kernels_.workspace(worker), result);
  } else if (MustWait(mine)) {
    result.outcome = Outcome::kBlocked;
  } else {
    result.multiply_adds = mine.block->FinishStep(mine.slot->memory.data(), kernels_.workspace(worker));
    if (mine.block->finished()) FinishHead(mine);
  }
  return result;
}

// One piece of a split, and what follows if that was its last.
void DecodeAttention::Advance(Worker& mine, TileWorkspace& workspace, StepResult& result) {
  const int64_t b = BatchOf(*mine.slot);
  const KeyRange keys = task_.tiling->decode().Keys(b, mine.split);
  const DecodeSums sums = SumsOf(*mine.slot, mine.split);
  if (mine.next_key < 0) {
    mine.block->BeginSplit(sums);
    mine.next_key = keys.begin;
  }
  const int64_t end = std::min(keys.end, (mine.next_key / kDecodePiece + 1) * kDecodePiece);
  const int64_t following = task_.tiling->decode().Keys(b, mine.end_split - 1).end;
  result.multiply_adds = mine.block->Advance({.begin = mine.next_key, .end = end}, following, sums, workspace);
  mine.next_key = end;
  if (end < keys.end) return;
  mine.next_key = -1;
  const bool last = mine.slot->unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (last) {
    mine.finishing = true;
    mine.block->Finish(mine.slot->memory.data());
    if (mine.block->finished()) FinishHead(mine);
  } else if (++mine.split == mine.end_split) {
    mine.slot = nullptr;
  }
}

// Whether the head is about to add weights, and it is another's turn.
bool DecodeAttention::MustWait(const Worker& mine) const {
  if (turns_.empty() || !mine.block->in_weights()) return false;
  const int64_t turn = mine.slot->head % task_.problem->shape().kv_heads;
  return turns_[BatchOf(*mine.slot)].load(std::memory_order_acquire) != turn;
}

void DecodeAttention::FinishHead(Worker& mine) {
  const int64_t b = BatchOf(*mine.slot);
  if (!turns_.empty()) turns_[b].fetch_add(1, std::memory_order_acq_rel);
  {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(mine.slot);
  }
  mine.slot = nullptr;
  unfinished_splits_.fetch_sub(task_.tiling->decode().Count(b), std::memory_order_acq_rel);
}

}  // namespace attend::core
