// Blocks of 64 KiB and up are mappings of their own, so that giving one back really lowers resident memory and a new
// one costs no clearing but the kernel's. Their sizes are rounded up to one of 16 classes per power of two (at
// most 6.25 % more), and an idle block serves its own class or the one below (at most 12.5 % more): differing requests
// of about one size use each other's blocks. What is idle beyond the bound goes back to the system, longest unused
// first.
#include "core/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <vector>

namespace attend::core {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kSmallestKept = int64_t{64} << 10;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLargestBlock = int64_t{1} << 46;  // half of what a process can address; keeps the rounding exact

// The distance between the size classes from the power of two below `bytes`; whole pages from 64 KiB on.
int64_t ClassStep(int64_t bytes) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 16; }

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

struct Block {
  std::byte* start = nullptr;
  int64_t capacity = 0;
};

void Unmap(const Block& block) { munmap(block.start, static_cast<size_t>(block.capacity)); }

// A mapping that begins at a huge page's border where it can hold one, as only such parts can be backed by huge pages:
// touching them costs one page fault in place of 512. Null if memory runs out.
std::byte* Map(int64_t capacity) {
  const int64_t slack = capacity >= kHugePage ? kHugePage : 0;
  void* const raw =
      mmap(nullptr, static_cast<size_t>(capacity + slack), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(raw);
  if (slack == 0) return start;
  const int64_t before = (kHugePage - static_cast<int64_t>(reinterpret_cast<uintptr_t>(raw) % kHugePage)) % kHugePage;
  if (before > 0) Unmap({start, before});
  start += before;
  if (slack - before > 0) Unmap({start + capacity, slack - before});
  madvise(start, static_cast<size_t>(capacity), MADV_HUGEPAGE);  // advice: a kernel without huge pages may refuse it
  return start;
}

}  // namespace

// The blocks that a pool and its buffers share. Thread-safe. System calls are made outside the lock: unmapping 100 MB
// takes milliseconds.
class Buffer::Shelf {
 public:
  explicit Shelf(int64_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}
  ~Shelf() { Trim(); }

  // A block of at least `bytes` > 0; its start is null if memory runs out.
  Block Take(int64_t bytes) {
    if (bytes > kLargestBlock) return {};
    const Block block = IsSmall(RoundUp(bytes, kAlignment)) ? TakeSmall(bytes) : TakeLarge(bytes);
    if (block.start == nullptr) return {};
    const std::lock_guard lock(mutex_);
    used_bytes_ += block.capacity;
    return block;
  }

  void GiveBack(const Block& block) {
    const bool small = IsSmall(block.capacity);
    std::vector<Block> surplus;
    {
      const std::lock_guard lock(mutex_);
      used_bytes_ -= block.capacity;
      if (!small) {
        idle_.push_back(block);
        by_capacity_.emplace(block.capacity, std::prev(idle_.end()));
        idle_bytes_ += block.capacity;
        surplus = TakeOldestUntil(max_idle_bytes_);
      }
    }
    if (small) std::free(block.start);
    for (const Block& old : surplus) Unmap(old);
  }

  void Trim() {
    std::vector<Block> all;
    {
      const std::lock_guard lock(mutex_);
      all = TakeOldestUntil(0);
    }
    for (const Block& block : all) Unmap(block);
  }

  // After this nothing that comes back is kept.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      max_idle_bytes_ = 0;
    }
    Trim();
  }

  int64_t idle_bytes() const {
    const std::lock_guard lock(mutex_);
    return idle_bytes_;
  }

  int64_t used_bytes() const {
    const std::lock_guard lock(mutex_);
    return used_bytes_;
  }

 private:
  using IdleList = std::list<Block>;

  static bool IsSmall(int64_t capacity) { return capacity < kSmallestKept; }

  static Block TakeSmall(int64_t bytes) {
    const int64_t capacity = RoundUp(bytes, kAlignment);
    return {static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(capacity))), capacity};
  }

  Block TakeLarge(int64_t bytes) {
    const int64_t capacity = RoundUp(bytes, ClassStep(bytes));
    if (Block block = TakeIdle(capacity); block.start != nullptr) return block;
    Block block = {Map(capacity), capacity};
    if (block.start != nullptr) return block;
    Trim();  // idle blocks of other sizes may be what is missing
    return {Map(capacity), capacity};
  }

  Block TakeIdle(int64_t capacity) {
    const std::lock_guard lock(mutex_);
    auto found = by_capacity_.lower_bound(capacity);
    if (found == by_capacity_.end() || found->first > capacity + ClassStep(capacity)) return {};
    found = std::prev(by_capacity_.upper_bound(found->first));  // the last to come back: likeliest in the caches
    const Block block = *found->second;
    idle_.erase(found->second);
    by_capacity_.erase(found);
    idle_bytes_ -= block.capacity;
    return block;
  }

  // Under the lock: takes the longest-idle blocks off the shelf until at most `bytes` are idle.
  std::vector<Block> TakeOldestUntil(int64_t bytes) {
    std::vector<Block> taken;
    while (idle_bytes_ > bytes) {
      const Block block = idle_.front();
      const auto [first, last] = by_capacity_.equal_range(block.capacity);
      by_capacity_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == idle_.begin(); }));
      idle_.pop_front();
      idle_bytes_ -= block.capacity;
      taken.push_back(block);
    }
    return taken;
  }

  mutable std::mutex mutex_;
  int64_t max_idle_bytes_;
  int64_t idle_bytes_ = 0;
  int64_t used_bytes_ = 0;
  IdleList idle_;  // longest idle first
  std::multimap<int64_t, IdleList::iterator> by_capacity_;
};

Buffer::~Buffer() {
  if (data_ != nullptr) shelf_->GiveBack({data_, capacity_});
}

Buffer::Buffer(Buffer&& other) noexcept
    : shelf_(std::move(other.shelf_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));
  std::swap(shelf_, taken.shelf_);
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(capacity_, taken.capacity_);
  return *this;
}

BufferPool::BufferPool(int64_t max_idle_bytes) : shelf_(std::make_shared<Buffer::Shelf>(max_idle_bytes)) {}

BufferPool::~BufferPool() { shelf_->Close(); }

Buffer BufferPool::Acquire(int64_t bytes) {
  Buffer buffer;
  if (bytes <= 0) return buffer;
  const Block block = shelf_->Take(bytes);
  if (block.start == nullptr) return buffer;
  buffer.shelf_ = shelf_;
  buffer.data_ = block.start;
  buffer.size_ = bytes;
  buffer.capacity_ = block.capacity;
  return buffer;
}

int64_t BufferPool::MostBytes(int64_t bytes) {
  constexpr int64_t kSmallestClass = 4096;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (bytes == 0) return 0;
  return bytes > kMost / 8 * 7 - kSmallestClass ? kMost : bytes + bytes / 8 + kSmallestClass;
}

void BufferPool::Trim() { shelf_->Trim(); }

int64_t BufferPool::idle_bytes() const { return shelf_->idle_bytes(); }

int64_t BufferPool::used_bytes() const { return shelf_->used_bytes(); }

}  // namespace attend::core
