// The contents of a large bytes field, left where the transport put them or where its owner keeps them.
#ifndef ATTEND_PROTO_WIRE_BULK_BYTES_H_
#define ATTEND_PROTO_WIRE_BULK_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "grpcpp/support/slice.h"

namespace attend::wire {

// Clears `slices`. Whoever lets go of slices that gRPC received does it through here: freeing the last reference can
// make gRPC 1.51 schedule a closure (where its memory quota runs short), for which it needs an execution context. Only
// its own threads have one; grpc_slice_unref() makes none, unlike the rest of its interface, and reads a null pointer.
void LetGo(std::vector<grpc::Slice>& slices);

// A sequence of slices. Copying it copies references, never bytes. A value: not thread-safe, but copies are
// independent.
class BulkBytes {
 public:
  BulkBytes() = default;
  ~BulkBytes() { LetGo(slices_); }
  BulkBytes(const BulkBytes&) = default;
  // A moved-from value is empty.
  BulkBytes(BulkBytes&& other) noexcept;
  BulkBytes& operator=(BulkBytes other) noexcept;

  // Lends `size` bytes without copying them. They stay unchanged until `owner`, which may be null for memory that lives
  // as long as the process, is let go: on any thread, possibly after the call they were sent in has ended, because the
  // transport may still hold them.
  static BulkBytes Share(const void* bytes, int64_t size, std::shared_ptr<const void> owner);

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<grpc::Slice>& slices() const { return slices_; }

  void Append(grpc::Slice slice);
  // Hands the slices over; this value is empty then.
  std::vector<grpc::Slice> Release();

  // The bytes in place, if they lie in one slice at an address that is a multiple of `alignment`; else, or if there are
  // none, null. Valid as long as this value, or one moved from it, lives and is not changed.
  const std::byte* InPlace(size_t alignment) const;

  // Copies everything to `destination`, which has room for size() bytes.
  void CopyTo(void* destination) const;

 private:
  std::vector<grpc::Slice> slices_;  // none of them empty
  int64_t size_ = 0;
};

// Copies bulk bytes a piece at a time, so that no thread is held for long, and lets go of each slice once it is copied,
// so that the bytes are not in memory twice. Not thread-safe; the pieces may be copied by different threads in turn.
class BulkGatherer {
 public:
  BulkGatherer() = default;
  // `destination` has room for bytes.size() bytes and outlives the last Step.
  BulkGatherer(BulkBytes bytes, void* destination);
  ~BulkGatherer() { LetGo(slices_); }
  BulkGatherer(BulkGatherer&& other) = default;
  BulkGatherer& operator=(BulkGatherer&& other) noexcept;

  // Copies up to `max_bytes` more, at least 1 if any are left, and returns how many.
  int64_t Step(int64_t max_bytes);
  bool done() const { return remaining_ == 0; }
  int64_t remaining() const { return remaining_; }

 private:
  std::vector<grpc::Slice> slices_;
  size_t next_ = 0;    // the slice being copied
  size_t offset_ = 0;  // how much of it has been
  std::byte* destination_ = nullptr;
  int64_t remaining_ = 0;
};

}  // namespace attend::wire

#endif  // ATTEND_PROTO_WIRE_BULK_BYTES_H_
