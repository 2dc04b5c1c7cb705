// Large blocks of memory that are used again: page faults and malloc churn are the largest avoidable cost at tens of
// MB.
#ifndef ATTEND_CORE_BUFFER_POOL_H_
#define ATTEND_CORE_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace attend::core {

class BufferPool;

// Owns a block of at least the asked-for bytes, aligned to 64, contents undefined. Empty if default-made. Movable.
// Destroying it gives the block back to its pool, which may be gone by then.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }  // as asked for

 private:
  friend class BufferPool;
  class Shelf;
  std::shared_ptr<Shelf> shelf_;  // shared: blocks outlive the pool while gRPC still sends them
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  int64_t capacity_ = 0;
};

// Bytes that a part of a block takes where the next one is to be aligned as the block is.
constexpr int64_t AlignedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr int64_t FloatBytes(int64_t count) { return AlignedBytes(count * static_cast<int64_t>(sizeof(float))); }

// Thread-safe.
class BufferPool {
 public:
  // Keeps at most `max_idle_bytes` of blocks that nobody uses.
  explicit BufferPool(int64_t max_idle_bytes);
  ~BufferPool();

  // A block of `bytes`; an empty Buffer if bytes is 0 or memory runs out (size() tells which). Small blocks (under
  // 64 KiB) come from malloc and are never kept.
  Buffer Acquire(int64_t bytes);
  // What a block of `bytes` counts for in used_bytes(), at most: size classes are at most an eighth apart. Saturates at
  // the largest int64.
  static int64_t MostBytes(int64_t bytes);

  // Gives idle blocks back to the system, all of them: resident memory returns after a burst.
  void Trim();

  int64_t idle_bytes() const;
  int64_t used_bytes() const;

 private:
  std::shared_ptr<Buffer::Shelf> shelf_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_BUFFER_POOL_H_
