#include "core/packed_key_value.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace attend::core {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr KeyPanels kPlain = {.keys = kKeyBlock, .row_stride = kKeyBlock + 16};
constexpr KeyPanels kGranules = {.keys = kKeyGranule, .row_stride = kKeyGranule};

KeyValueFormat Format(int head_dim, int value_dim, const KeyPanels& panels, bool share_values) {
  KeyValueFormat format;
  format.head_dim = head_dim;
  format.value_dim = value_dim;
  format.panels = panels;
  format.share_values = share_values;
  return format;
}

struct Sequence {
  std::vector<float> keys, values;
  int64_t length;
  int head_dim, value_dim;

  Sequence(int64_t n, const KeyValueFormat& format)
      : keys(n * format.head_dim),
        values(n * format.value_dim),
        length(n),
        head_dim(format.head_dim),
        value_dim(format.value_dim) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& x : keys) x = normal(random);
    for (float& x : values) x = normal(random);
  }
  SourceRows KeyRows() const { return Rows(keys, head_dim); }
  SourceRows ValueRows() const { return Rows(values, value_dim); }

 private:
  SourceRows Rows(const std::vector<float>& rows, int dim) const {
    return {.first = rows.data(), .stride = dim, .count = length, .dim = dim, .type = ElementType::kFloat32};
  }
};

class PackedKeyValueTest : public testing::Test {
 protected:
  PackedKeyValue Pack(const KeyValueFormat& format, const Sequence& sequence, int64_t capacity) {
    auto packed = PackedKeyValue::Create(format, capacity, buffers_);
    EXPECT_TRUE(packed.ok()) << packed.status();
    if (format.share_values) packed->ShareValues(sequence.ValueRows());
    for (int64_t block = 0; block * kKeyBlock < sequence.length; ++block) {
      packed->PackBlock(block, sequence.KeyRows(), sequence.ValueRows());
    }
    return *std::move(packed);
  }

  // Everything up to a whole granule: what is there, and zeros after it.
  static void ExpectHolds(const PackedKeyValue& packed, const Sequence& sequence) {
    const KeyValueFormat& format = packed.format();
    const int64_t padded = (sequence.length + kKeyGranule - 1) / kKeyGranule * kKeyGranule;
    for (int64_t j = 0; j < padded; ++j) {
      const int64_t block = j / kKeyBlock;
      const int64_t in_block = j % kKeyBlock;
      const auto* keys = static_cast<const float*>(packed.Keys(block * kKeyBlock));
      const auto* values = static_cast<const float*>(packed.Values(block * kKeyBlock));
      const bool there = j < sequence.length;
      for (int d = 0; d < format.padded_head_dim(); ++d) {
        const float expected = there && d < format.head_dim ? sequence.keys[j * format.head_dim + d] : 0;
        const int64_t panel = in_block / format.panels.keys;
        const int64_t at =
            (panel * format.padded_head_dim() + d) * format.panels.row_stride + in_block % format.panels.keys;
        ASSERT_EQ(keys[at], expected) << "key " << j << " dim " << d;
      }
      for (int d = 0; d < format.padded_value_dim(); ++d) {
        const float expected = there && d < format.value_dim ? sequence.values[j * format.value_dim + d] : 0;
        ASSERT_EQ(values[in_block * format.padded_value_dim() + d], expected) << "value " << j << " dim " << d;
      }
    }
  }

  BufferPool buffers_{int64_t{16} << 20};
};

TEST_F(PackedKeyValueTest, HoldsKeysAndValuesOfEveryLength) {
  for (const KeyPanels& panels : {kPlain, kGranules}) {
    for (const bool share : {false, true}) {
      for (const int64_t length : {1, 63, 64, 65, 255, 256, 257, 511, 600}) {
        const KeyValueFormat format = Format(33, share ? 48 : 35, panels, share);
        const Sequence sequence(length, format);
        ExpectHolds(Pack(format, sequence, 640), sequence);
        if (HasFatalFailure()) FAIL() << "length " << length << " share " << share << " panel " << panels.keys;
      }
    }
  }
}

TEST_F(PackedKeyValueTest, SharedValuesAreReadWhereTheyAre) {
  const KeyValueFormat format = Format(16, 32, kPlain, true);
  const Sequence sequence(300, format);
  const PackedKeyValue packed = Pack(format, sequence, 300);
  EXPECT_EQ(packed.Values(0), sequence.values.data());
  EXPECT_NE(packed.Values(kKeyBlock), sequence.values.data() + 256 * 32) << "the last block does not end at a granule";
  const Sequence whole(512, format);
  EXPECT_EQ(Pack(format, whole, 512).Values(kKeyBlock), whole.values.data() + 256 * 32);
}

TEST_F(PackedKeyValueTest, SharesOnlyWhatNeedsNoChange) {
  KeyValueFormat format = Format(16, 32, kPlain, false);
  EXPECT_TRUE(format.CanShareValues(32));
  EXPECT_FALSE(format.CanShareValues(64)) << "rows lie apart";
  format.value_dim = 33;
  EXPECT_FALSE(format.CanShareValues(33)) << "padding";
  format.value_dim = 32;
  format.type = ElementType::kBFloat16;
  EXPECT_FALSE(format.CanShareValues(32)) << "conversion";
  format.product = ProductType::kBFloat16;
  EXPECT_TRUE(format.CanShareValues(32));
  format.type = ElementType::kFloat16;
  format.product = ProductType::kFloat32;
  EXPECT_FALSE(format.CanShareValues(32)) << "conversion";
}

TEST_F(PackedKeyValueTest, ReadsKeyRowsOnlyWhereProductsTakeThem) {
  KeyValueFormat format = Format(32, 32, kGranules, true);
  EXPECT_FALSE(format.CanReadKeyRows(32)) << "panels only";
  format.panels.or_rows = true;
  EXPECT_TRUE(format.CanReadKeyRows(32));
  EXPECT_FALSE(format.CanReadKeyRows(64)) << "rows lie apart";
  format.product = ProductType::kBFloat16;
  EXPECT_FALSE(format.CanReadKeyRows(32)) << "conversion";
  format.type = ElementType::kBFloat16;
  EXPECT_FALSE(format.CanReadKeyRows(32)) << "float32 only";
  format = Format(33, 32, kGranules, true);
  format.panels.or_rows = true;
  EXPECT_FALSE(format.CanReadKeyRows(33)) << "padding";
}

TEST_F(PackedKeyValueTest, InPlaceNothingIsPacked) {
  KeyValueFormat format = Format(16, 32, kGranules, true);
  format.in_place = true;
  EXPECT_EQ(PackedKeyValue::Bytes(format, 10'000), 0);
  Sequence sequence(512, format);
  sequence.values[(256 + 70) * 32 + 3] = kNan;
  const PackedKeyValue packed = PackedKeyValue::InPlace(format, sequence.KeyRows(), sequence.ValueRows());
  EXPECT_EQ(packed.Keys(0), sequence.keys.data());
  EXPECT_EQ(packed.Keys(320), sequence.keys.data() + 320 * 16);
  EXPECT_EQ(packed.Values(320), sequence.values.data() + 320 * 32);
  EXPECT_TRUE(packed.ValuesFinite(0, 256));
  EXPECT_TRUE(packed.ValuesFinite(256, 64));
  EXPECT_FALSE(packed.ValuesFinite(256, 128));
  EXPECT_FALSE(packed.ValuesFinite(320, 64));
}

// As one sequence after the other uses the same memory.
TEST_F(PackedKeyValueTest, CanBePackedAgain) {
  for (const bool share : {false, true}) {
    const KeyValueFormat format = Format(20, 16, kPlain, share);
    Sequence first(400, format);
    first.values[5] = kNan;
    PackedKeyValue packed = Pack(format, first, 400);
    EXPECT_FALSE(packed.ValuesFinite(0, 64));
    const Sequence second(130, format);
    if (share) packed.ShareValues(second.ValueRows());
    packed.PackBlock(0, second.KeyRows(), second.ValueRows());
    ExpectHolds(packed, second);
    EXPECT_TRUE(packed.ValuesFinite(0, 192));
  }
}

// Of 300 keys, the value of `bad` alone is not finite.
void ExpectKnown(const PackedKeyValue& packed, int64_t bad) {
  for (int64_t block = 0; block < 2; ++block) {
    for (int keys = 64; keys <= (block == 0 ? 256 : 64); keys += 64) {
      const bool seen = bad >= block * 256 && bad < block * 256 + keys;
      EXPECT_EQ(packed.ValuesFinite(block * kKeyBlock, keys), !seen) << bad << " " << block << " " << keys;
    }
  }
}

TEST_F(PackedKeyValueTest, KnowsWhichGranulesHoldValuesThatAreNotFinite) {
  for (const bool share : {false, true}) {
    const KeyValueFormat format = Format(16, 16, kGranules, share);
    for (const int64_t bad : {0, 63, 64, 200, 255, 256, 299}) {
      Sequence sequence(300, format);
      sequence.values[bad * 16 + 15] = std::numeric_limits<float>::infinity();
      sequence.keys[3] = kNan;
      ExpectKnown(Pack(format, sequence, 300), bad);
    }
  }
}

TEST_F(PackedKeyValueTest, TakesTheBytesItSays) {
  const KeyValueFormat format = Format(64, 64, kPlain, false);
  const int64_t bytes = PackedKeyValue::Bytes(format, 10000);
  EXPECT_GE(bytes, 10000 * 64 * 2 * 4);
  EXPECT_LE(bytes, 10000 * 64 * 2 * 4 * 11 / 10);
  const auto packed = PackedKeyValue::Create(format, 10000, buffers_);
  ASSERT_TRUE(packed.ok());
  EXPECT_GE(buffers_.used_bytes(), bytes);
  EXPECT_LT(PackedKeyValue::Bytes(Format(64, 64, kPlain, true), 10000), bytes * 6 / 10) << "shared values take none";
}

TEST_F(PackedKeyValueTest, HugeCapacitiesSaturateAndAreRefused) {
  const KeyValueFormat format = Format(1024, 1024, kPlain, false);
  const int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(PackedKeyValue::Bytes(format, largest), largest);
  for (const int64_t capacity : {largest, largest / 8192, int64_t{1} << 45}) {
    EXPECT_EQ(PackedKeyValue::Create(format, capacity, buffers_).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace attend::core
