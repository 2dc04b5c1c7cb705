// The elements of a problem that are decode (core/decode_splits.h), as work for the pool: core/tiled_attention.h hands
// its workers to this first.
#ifndef ATTEND_CORE_DECODE_ATTENTION_H_
#define ATTEND_CORE_DECODE_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/buffer_pool.h"
#include "core/decode_block.h"
#include "core/tile_source.h"
#include "core/tile_state.h"

namespace attend::core {

// Heads are computed one after the other, the splits of each by as many workers as come. Whoever ends the last split of
// a head merges all and computes what is left, while the others go on. What splits leave behind lies in a few slots
// that are used again, so memory grows neither with the number of heads nor, beyond kMaxDecodeSplits, of keys.
class DecodeAttention {
 public:
  // Bytes that are allocated at most: a constant per worker. Saturates at the largest int64.
  static int64_t Bytes(const AttentionProblem& problem, const Tiling& tiling, int workers);

  // `task` and `kernels` outlive this.
  DecodeAttention(const DecodeBlock::Task& task, TileKernels::State& kernels);

  // As those of TileSource.
  TileSource::StepResult Step(int worker);
  bool finished() const {
    return unfinished_splits_.load(std::memory_order_acquire) == 0 || failed_.load(std::memory_order_acquire);
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status status() const;

 private:
  // What the splits of one head leave behind.
  struct Slot {
    Buffer memory;  // taken when first needed
    int64_t head = 0;
    std::atomic<int64_t> unfinished = 0;
  };
  // What a worker keeps between its steps.
  struct Worker {
    std::optional<DecodeBlock> block;  // made when first needed
    Slot* slot = nullptr;              // null if it has nothing to do
    int64_t split = 0;                 // being computed
    int64_t end_split = 0;             // of those that it computes, one after the other
    int64_t next_key = -1;             // -1: the split is not begun
    bool finishing = false;            // the head, all of whose splits are there
  };

  bool Take(Worker& mine);
  bool OpenNextHead();
  bool Begin(Worker& mine);
  void Advance(Worker& mine, TileWorkspace& workspace, TileSource::StepResult& result);
  bool MustWait(const Worker& mine) const;
  void FinishHead(Worker& mine);
  void Fail(const absl::Status& status);
  int64_t BatchOf(const Slot& slot) const { return slot.head / task_.problem->shape().kv_heads; }
  DecodeSums SumsOf(const Slot& slot, int64_t split) const;

  const DecodeBlock::Task task_;
  TileKernels::State& kernels_;
  const int64_t splits_at_once_;  // that a worker computes one after the other: no bit of a result depends on it
  std::vector<Worker> workers_;   // each used by its worker alone
  std::vector<Slot> slots_;
  std::vector<std::atomic<int64_t>> turns_;  // by batch element: heads that have added their averaged weights
  std::atomic<int64_t> unfinished_splits_;
  std::atomic<bool> failed_ = false;

  mutable std::mutex mutex_;  // guards what follows
  absl::Status status_;
  std::vector<Slot*> free_slots_;
  Slot* open_ = nullptr;  // the head whose splits are being handed out
  int64_t next_head_ = 0;
  int64_t next_split_ = 0;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_DECODE_ATTENTION_H_
