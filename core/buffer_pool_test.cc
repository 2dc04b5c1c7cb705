#include "core/buffer_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// Bytes of this process that are in memory.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * 4096;
}

TEST(BufferPoolTest, BlocksAreAlignedWritableAndCounted) {
  BufferPool pool(64 * kMiB);
  for (const int64_t bytes : {int64_t{1}, int64_t{63}, 64 * kKiB - 64, 64 * kKiB - 63, 64 * kKiB, 64 * kKiB + 1,
                              2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 12345}) {
    Buffer buffer = pool.Acquire(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::memset(buffer.data(), 0xab, static_cast<size_t>(bytes));
    EXPECT_GE(pool.used_bytes(), bytes);
    EXPECT_LE(pool.used_bytes(), bytes + std::max<int64_t>(bytes / 8, 64));
  }
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(BufferPoolTest, NothingForNothingAndForTheImpossible) {
  BufferPool pool(64 * kMiB);
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, int64_t{1} << 46, INT64_MAX}) {
    const Buffer buffer = pool.Acquire(bytes);
    EXPECT_EQ(buffer.size(), 0) << bytes;
    EXPECT_EQ(buffer.data(), nullptr) << bytes;
  }
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(BufferPoolTest, ABlockIsUsedAgainByRequestsOfAboutItsSize) {
  BufferPool pool(64 * kMiB);
  const std::byte* const first = pool.Acquire(10 * kMiB).data();
  EXPECT_GE(pool.idle_bytes(), 10 * kMiB);
  {
    const Buffer again = pool.Acquire(10 * kMiB - 200 * kKiB);
    EXPECT_EQ(again.data(), first);
    EXPECT_EQ(pool.idle_bytes(), 0);
  }
  const Buffer much_smaller = pool.Acquire(8 * kMiB);
  EXPECT_NE(much_smaller.data(), first);
  EXPECT_GE(pool.idle_bytes(), 10 * kMiB);
}

TEST(BufferPoolTest, NeverHandsOutMuchMoreThanAsked) {
  BufferPool pool(256 * kMiB);
  std::mt19937_64 random(7);
  std::uniform_int_distribution<int64_t> sizes(64 * kKiB, 4 * kMiB);
  for (int i = 0; i < 2000; ++i) {
    const int64_t bytes = sizes(random);
    const Buffer buffer = pool.Acquire(bytes);
    ASSERT_LE(pool.used_bytes(), bytes + bytes / 8 + 4 * kKiB);
  }
}

TEST(BufferPoolTest, IdleBytesAreBounded) {
  BufferPool pool(4 * kMiB);
  {
    std::vector<Buffer> many;
    for (int i = 0; i < 16; ++i) many.push_back(pool.Acquire(kMiB));
    many.push_back(pool.Acquire(5 * kMiB));
  }
  EXPECT_LE(pool.idle_bytes(), 4 * kMiB);
  EXPECT_EQ(pool.used_bytes(), 0);
  BufferPool keeps_nothing(0);
  keeps_nothing.Acquire(kMiB);
  EXPECT_EQ(keeps_nothing.idle_bytes(), 0);
}

TEST(BufferPoolTest, TheLongestIdleGoFirst) {
  BufferPool pool(4 * kMiB);
  pool.Acquire(2 * kMiB);  // old
  const std::byte* const recent = pool.Acquire(3 * kMiB).data();
  EXPECT_EQ(pool.idle_bytes(), 3 * kMiB);
  EXPECT_EQ(pool.Acquire(3 * kMiB).data(), recent);
}

TEST(BufferPoolTest, SmallBlocksAreNeverKept) {
  BufferPool pool(64 * kMiB);
  pool.Acquire(60 * kKiB);
  EXPECT_EQ(pool.idle_bytes(), 0);
}

TEST(BufferPoolTest, TrimReturnsMemoryToTheSystem) {
  BufferPool pool(256 * kMiB);
  const int64_t before = ResidentBytes();
  {
    Buffer buffer = pool.Acquire(128 * kMiB);
    std::memset(buffer.data(), 1, static_cast<size_t>(buffer.size()));
  }
  EXPECT_GT(ResidentBytes(), before + 100 * kMiB);
  pool.Trim();
  EXPECT_EQ(pool.idle_bytes(), 0);
  EXPECT_LT(ResidentBytes(), before + 64 * kMiB);
}

TEST(BufferPoolTest, BuffersMoveAndOutliveTheirPool) {
  Buffer kept;
  {
    auto pool = std::make_unique<BufferPool>(64 * kMiB);
    Buffer first = pool->Acquire(kMiB);
    std::byte* const start = first.data();
    Buffer second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): a moved-from Buffer is empty
    EXPECT_EQ(first.size(), 0);
    EXPECT_EQ(second.data(), start);
    kept = pool->Acquire(2 * kMiB);
    kept = std::move(second);  // gives its old block back
    EXPECT_GE(pool->idle_bytes(), 2 * kMiB);
    EXPECT_EQ(kept.data(), start);
  }
  std::memset(kept.data(), 1, static_cast<size_t>(kept.size()));
}

TEST(BufferPoolTest, ThreadsShareIt) {
  BufferPool pool(8 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      std::mt19937_64 random(t);
      std::uniform_int_distribution<int64_t> sizes(1, kMiB);
      std::vector<Buffer> held(4);
      for (int i = 0; i < 500; ++i) {
        Buffer& buffer = held[static_cast<size_t>(i) % held.size()];
        buffer = pool.Acquire(sizes(random));
        buffer.data()[0] = buffer.data()[buffer.size() - 1] = std::byte{1};
        if (i % 100 == 0) pool.Trim();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_LE(pool.idle_bytes(), 8 * kMiB);
}

}  // namespace
}  // namespace attend::core
