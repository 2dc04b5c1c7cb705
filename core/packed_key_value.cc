#include "core/packed_key_value.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::core {
namespace {

// Wide enough for any product of a length, a dim and a size.
using Wide = __int128;

int64_t Saturate(Wide bytes) {
  constexpr Wide kLargest = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(bytes, kLargest));
}

Wide RoundUp(Wide count, int unit) { return (count + unit - 1) / unit * unit; }

// The rows of one key block.
SourceRows RowsOfBlock(const SourceRows& rows, int64_t block) {
  const int64_t first = block * kKeyBlock;
  SourceRows part = rows;
  part.first = rows.row(first);
  part.count = std::clamp<int64_t>(rows.count - first, 0, kKeyBlock);
  return part;
}

int PaddedCount(int64_t count) { return static_cast<int>(RoundUp(count, kKeyGranule)); }

}  // namespace

bool KeyValueFormat::CanShareValues(int64_t row_stride) const {
  const bool same_type = (type == ElementType::kFloat32 && product == ProductType::kFloat32) ||
                         (type == ElementType::kBFloat16 && product == ProductType::kBFloat16);
  return same_type && value_dim == padded_value_dim() && row_stride == value_dim;
}

bool KeyValueFormat::CanReadKeyRows(int64_t row_stride) const {
  return panels.or_rows && type == ElementType::kFloat32 && product == ProductType::kFloat32 &&
         head_dim == padded_head_dim() && row_stride == head_dim;
}

// Where the parts of the buffer begin, each aligned to a cache line.
struct PackedKeyValue::Sections {
  Wide values = 0;
  Wide flags = 0;
  Wide end = 0;

  Sections(const KeyValueFormat& format, int64_t capacity) {
    const Wide padded = RoundUp(capacity, kKeyGranule);
    const Wide value_rows = format.share_values ? std::min<Wide>(padded, kKeyBlock) : padded;
    values = RoundUp(padded, format.panels.keys) / format.panels.keys * format.padded_head_dim() *
             format.panels.row_stride * ProductBytes(format.product);
    flags = values + value_rows * format.padded_value_dim() * ProductBytes(format.product);
    end = RoundUp(flags + padded / kKeyGranule, 64);
  }
};

int64_t PackedKeyValue::Bytes(const KeyValueFormat& format, int64_t capacity) {
  return format.in_place ? 0 : Saturate(Sections(format, capacity).end);
}

absl::StatusOr<PackedKeyValue> PackedKeyValue::Create(const KeyValueFormat& format, int64_t capacity,
                                                      BufferPool& buffers) {
  const int64_t bytes = Bytes(format, capacity);
  Buffer buffer = buffers.Acquire(bytes);
  if (buffer.size() != bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of packed keys and values"));
  }
  return PackedKeyValue(format, capacity, std::move(buffer));
}

PackedKeyValue::PackedKeyValue(const KeyValueFormat& format, int64_t capacity, Buffer buffer)
    : format_(format), capacity_(capacity), buffer_(std::move(buffer)) {
  const Sections sections(format, capacity);
  values_offset_ = static_cast<int64_t>(sections.values);
  flags_offset_ = static_cast<int64_t>(sections.flags);
}

PackedKeyValue PackedKeyValue::InPlace(const KeyValueFormat& format, const SourceRows& keys, const SourceRows& values) {
  PackedKeyValue in_place(format, keys.count, Buffer());
  in_place.keys_ = keys;
  in_place.shared_values_ = values;
  return in_place;
}

void PackedKeyValue::ShareValues(const SourceRows& values) { shared_values_ = values; }

void PackedKeyValue::PackBlock(int64_t block, const SourceRows& keys, const SourceRows& values) {
  const SourceRows block_keys = RowsOfBlock(keys, block);
  const KeyPanels& panels = format_.panels;
  auto* panel = static_cast<std::byte*>(const_cast<void*>(Keys(block * kKeyBlock)));
  const int64_t panel_bytes = int64_t{format_.padded_head_dim()} * panels.row_stride * ProductBytes(format_.product);
  for (int64_t first = 0; first < block_keys.count; first += panels.keys, panel += panel_bytes) {
    SourceRows part = block_keys;
    part.first = block_keys.row(first);
    part.count = std::min<int64_t>(block_keys.count - first, panels.keys);
    PackKeyPanel(part, format_.padded_head_dim(), PaddedCount(part.count), panels, format_.product, panel);
  }

  const SourceRows block_values = RowsOfBlock(values, block);
  const void* packed = Values(block * kKeyBlock);
  if (!format_.share_values || packed != block_values.first) {
    PackRows(block_values, format_.padded_value_dim(), PaddedCount(block_values.count), format_.product,
             const_cast<void*>(packed));
  }
  std::byte* flags = buffer_.data() + flags_offset_ + block * (kKeyBlock / kKeyGranule);
  const SourceRows checked = Multiplied(block_values, packed);
  for (int64_t first = 0; first < block_values.count; first += kKeyGranule) {
    SourceRows granule = checked;
    granule.first = checked.row(first);
    granule.count = std::min<int64_t>(block_values.count - first, kKeyGranule);
    *flags++ = std::byte{!AllFinite(granule)};
  }
}

// f32 values that become bf16 may become infinite.
SourceRows PackedKeyValue::Multiplied(const SourceRows& values, const void* packed) const {
  if (format_.product != ProductType::kBFloat16 || format_.type == ElementType::kBFloat16) return values;
  SourceRows rounded = values;
  rounded.first = packed;
  rounded.stride = format_.padded_value_dim();
  rounded.type = ElementType::kBFloat16;
  return rounded;
}

const void* PackedKeyValue::Keys(int64_t first) const {
  if (format_.in_place) return keys_.row(first);
  const int64_t panel = first / format_.panels.keys;
  const int64_t panel_elements = int64_t{format_.padded_head_dim()} * format_.panels.row_stride;
  const int64_t element = panel * panel_elements + first % format_.panels.keys;
  return buffer_.data() + element * ProductBytes(format_.product);
}

const void* PackedKeyValue::Values(int64_t first) const {
  if (format_.in_place) return shared_values_.row(first);
  const std::byte* copies = buffer_.data() + values_offset_;
  const int64_t row_bytes = format_.padded_value_dim() * ProductBytes(format_.product);
  if (!format_.share_values) return copies + first * row_bytes;
  const int64_t length = shared_values_.count;
  const bool copied = length % kKeyGranule != 0 && first / kKeyBlock == length / kKeyBlock;
  return copied ? copies + first % kKeyBlock * row_bytes : shared_values_.row(first);
}

bool PackedKeyValue::ValuesFinite(int64_t first, int keys) const {
  if (format_.in_place) {
    SourceRows values = shared_values_;
    values.first = values.row(first);
    values.count = keys;
    return AllFinite(values);
  }
  const std::byte* flags = buffer_.data() + flags_offset_ + first / kKeyGranule;
  return std::all_of(flags, flags + keys / kKeyGranule, [](std::byte flag) { return flag == std::byte{0}; });
}

}  // namespace attend::core
