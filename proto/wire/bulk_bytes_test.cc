#include "proto/wire/bulk_bytes.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>

namespace attend::wire {
namespace {

// `count` bytes 0, 1, 2, ... in slices of `slice_size`.
BulkBytes Counting(int count, int slice_size) {
  BulkBytes bytes;
  std::string all(static_cast<size_t>(count), '\0');
  std::iota(all.begin(), all.end(), '\0');
  for (int start = 0; start < count; start += slice_size) {
    bytes.Append(grpc::Slice(all.substr(static_cast<size_t>(start), static_cast<size_t>(slice_size))));
  }
  return bytes;
}

std::string Expected(int count) {
  std::string all(static_cast<size_t>(count), '\0');
  std::iota(all.begin(), all.end(), '\0');
  return all;
}

TEST(BulkBytesTest, CopiesAllSlices) {
  const BulkBytes bytes = Counting(100, 7);
  EXPECT_EQ(bytes.size(), 100);
  std::string copy(100, '\0');
  bytes.CopyTo(copy.data());
  EXPECT_EQ(copy, Expected(100));
}

TEST(BulkBytesTest, EmptySlicesLeaveNoTrace) {
  BulkBytes bytes;
  bytes.Append(grpc::Slice());
  EXPECT_TRUE(bytes.empty());
  EXPECT_TRUE(bytes.slices().empty());
}

TEST(BulkBytesTest, MovedFromIsEmpty) {
  BulkBytes bytes = Counting(100, 7);
  const BulkBytes moved = std::move(bytes);
  EXPECT_EQ(moved.size(), 100);
  EXPECT_TRUE(bytes.empty());  // NOLINT(bugprone-use-after-move): promised
  EXPECT_TRUE(bytes.slices().empty());
}

TEST(BulkBytesTest, InPlaceOnlyInOneAlignedSlice) {
  alignas(64) static const char memory[128] = {};
  EXPECT_EQ(BulkBytes::Share(memory, 64, nullptr).InPlace(64), reinterpret_cast<const std::byte*>(memory));
  EXPECT_EQ(BulkBytes::Share(memory + 2, 64, nullptr).InPlace(2), reinterpret_cast<const std::byte*>(memory + 2));
  EXPECT_EQ(BulkBytes::Share(memory + 2, 64, nullptr).InPlace(4), nullptr);
  EXPECT_EQ(Counting(100, 50).InPlace(1), nullptr);
  EXPECT_EQ(BulkBytes().InPlace(1), nullptr);
}

TEST(BulkBytesTest, InPlaceStaysWhereItIsWhenMoved) {
  BulkBytes small = Counting(8, 8);  // short slices hold their bytes inside themselves
  const std::byte* place = small.InPlace(1);
  const BulkBytes moved = std::move(small);
  EXPECT_EQ(moved.InPlace(1), place);
}

TEST(BulkBytesTest, ShareHoldsTheOwnerUntilTheLastReferenceIsGone) {
  auto owner = std::make_shared<std::string>(1000, 'x');
  std::weak_ptr<std::string> watch = owner;
  BulkBytes bytes = BulkBytes::Share(owner->data(), 1000, owner);
  EXPECT_EQ(bytes.slices().front().begin(), reinterpret_cast<const uint8_t*>(owner->data()));
  owner.reset();
  BulkBytes copy = bytes;
  bytes = BulkBytes();
  EXPECT_FALSE(watch.expired());
  copy = BulkBytes();
  EXPECT_TRUE(watch.expired());
}

TEST(BulkBytesTest, ShareOfNothingHoldsNothing) {
  auto owner = std::make_shared<std::string>();
  const BulkBytes bytes = BulkBytes::Share(owner->data(), 0, owner);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(BulkGathererTest, CopiesTheSameInPiecesOfAnySize) {
  for (int slice_size = 1; slice_size <= 101; ++slice_size) {
    for (int step = 1; step <= 101; ++step) {
      std::string copy(100, '\xff');
      BulkGatherer gatherer(Counting(100, slice_size), copy.data());
      while (!gatherer.done()) {
        const int64_t before = gatherer.remaining();
        const int64_t copied = gatherer.Step(step);
        ASSERT_LE(copied, step);
        ASSERT_EQ(gatherer.remaining(), before - copied);
      }
      ASSERT_EQ(copy, Expected(100)) << "slices of " << slice_size << ", steps of " << step;
    }
  }
}

TEST(BulkGathererTest, AlwaysAdvances) {
  std::string copy(3, '\0');
  BulkGatherer gatherer(Counting(3, 3), copy.data());
  EXPECT_EQ(gatherer.Step(0), 1);
  EXPECT_EQ(gatherer.Step(-5), 1);
  EXPECT_EQ(gatherer.Step(100), 1);
  EXPECT_EQ(gatherer.Step(100), 0);
}

TEST(BulkGathererTest, LetsGoOfWhatIsCopied) {
  auto first = std::make_shared<std::string>(100, 'a');
  auto second = std::make_shared<std::string>(100, 'b');
  BulkBytes bytes = BulkBytes::Share(first->data(), 100, first);
  bytes.Append(BulkBytes::Share(second->data(), 100, second).slices().front());
  std::string copy(200, '\0');
  BulkGatherer gatherer(std::move(bytes), copy.data());
  gatherer.Step(99);
  EXPECT_EQ(first.use_count(), 2);
  gatherer.Step(1);
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 2);
  gatherer.Step(100);
  EXPECT_EQ(second.use_count(), 1);
}

TEST(BulkGathererTest, NothingToGatherIsDone) {
  EXPECT_TRUE(BulkGatherer().done());
  EXPECT_TRUE(BulkGatherer(BulkBytes(), nullptr).done());
}

}  // namespace
}  // namespace attend::wire
