#include "proto/wire/bulk_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "grpcpp/support/byte_buffer.h"

namespace attend::wire {

void LetGo(std::vector<grpc::Slice>& slices) {
  if (slices.empty()) return;
  // Destroying a buffer makes the execution context.
  const grpc::ByteBuffer last_references(slices.data(), slices.size());
  slices.clear();
}

BulkBytes::BulkBytes(BulkBytes&& other) noexcept
    : slices_(std::exchange(other.slices_, {})), size_(std::exchange(other.size_, 0)) {}

BulkBytes& BulkBytes::operator=(BulkBytes other) noexcept {
  std::swap(slices_, other.slices_);
  std::swap(size_, other.size_);
  return *this;
}

BulkBytes BulkBytes::Share(const void* bytes, int64_t size, std::shared_ptr<const void> owner) {
  BulkBytes result;
  if (size <= 0) return result;
  const auto length = static_cast<size_t>(size);
  if (owner == nullptr) {
    result.Append(grpc::Slice(bytes, length, grpc::Slice::STATIC_SLICE));
    return result;
  }
  auto* held = new std::shared_ptr<const void>(std::move(owner));
  const auto let_go = [](void* pointer) { delete static_cast<std::shared_ptr<const void>*>(pointer); };
  // gRPC only reads what it sends; its C interface has no const.
  result.Append(grpc::Slice(const_cast<void*>(bytes), length, let_go, held));
  return result;
}

void BulkBytes::Append(grpc::Slice slice) {
  if (slice.size() == 0) return;
  size_ += static_cast<int64_t>(slice.size());
  slices_.push_back(std::move(slice));
}

std::vector<grpc::Slice> BulkBytes::Release() {
  size_ = 0;
  return std::exchange(slices_, {});
}

const std::byte* BulkBytes::InPlace(size_t alignment) const {
  if (slices_.size() != 1) return nullptr;
  const auto* bytes = reinterpret_cast<const std::byte*>(slices_.front().begin());
  return reinterpret_cast<uintptr_t>(bytes) % alignment == 0 ? bytes : nullptr;
}

void BulkBytes::CopyTo(void* destination) const {
  auto* next = static_cast<std::byte*>(destination);
  for (const grpc::Slice& slice : slices_) {
    std::memcpy(next, slice.begin(), slice.size());
    next += slice.size();
  }
}

BulkGatherer::BulkGatherer(BulkBytes bytes, void* destination)
    : destination_(static_cast<std::byte*>(destination)), remaining_(bytes.size()) {
  slices_ = bytes.Release();
}

BulkGatherer& BulkGatherer::operator=(BulkGatherer&& other) noexcept {
  std::swap(slices_, other.slices_);
  next_ = other.next_;
  offset_ = other.offset_;
  destination_ = other.destination_;
  remaining_ = other.remaining_;
  return *this;
}

int64_t BulkGatherer::Step(int64_t max_bytes) {
  int64_t allowance = std::min(std::max<int64_t>(max_bytes, 1), remaining_);
  const int64_t copied = allowance;
  std::vector<grpc::Slice> finished;
  while (allowance > 0) {
    grpc::Slice& slice = slices_[next_];
    const size_t piece = std::min(slice.size() - offset_, static_cast<size_t>(allowance));
    std::memcpy(destination_, slice.begin() + offset_, piece);
    destination_ += piece;
    offset_ += piece;
    allowance -= static_cast<int64_t>(piece);
    if (offset_ == slice.size()) {
      finished.push_back(std::exchange(slice, {}));
      ++next_;
      offset_ = 0;
    }
  }
  LetGo(finished);
  remaining_ -= copied;
  return copied;
}

}  // namespace attend::wire
