// The keys and values of one kv head in the form that tiles read: a value of its own, which knows nothing of the
// request whose tensors filled it, so that a stored sequence can keep one and fill it on, kKeyGranule keys at a time.
#ifndef ATTEND_CORE_PACKED_KEY_VALUE_H_
#define ATTEND_CORE_PACKED_KEY_VALUE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/buffer_pool.h"
#include "core/element_type.h"
#include "core/matmul.h"
#include "core/packing.h"

namespace attend::core {

// What must agree between the packed form and the products that read it.
struct KeyValueFormat {
  int head_dim = 0;                          // as given; both are padded to kDimGranule when packed
  int value_dim = 0;                         // 0 if no values are needed
  ElementType type = ElementType::kFloat32;  // of the source
  ProductType product = ProductType::kFloat32;
  KeyPanels panels;
  // Values stay where they are. Possible if they need neither conversion nor padding nor gathering: CanShareValues().
  bool share_values = false;
  // Keys stay where they are, too, and nothing is packed: for few rows of queries. Needs share_values, or no values.
  bool in_place = false;

  int padded_head_dim() const { return PaddedDim(head_dim); }
  int padded_value_dim() const { return PaddedDim(value_dim); }
  static int PaddedDim(int dim) { return (dim + kDimGranule - 1) / kDimGranule * kDimGranule; }

  // Whether values whose rows are `row_stride` elements apart can be read in place.
  bool CanShareValues(int64_t row_stride) const;
  // The same for keys.
  bool CanReadKeyRows(int64_t row_stride) const;
};

// Movable. Packing different key blocks, and reading packed ones, is safe from several threads at once.
class PackedKeyValue {
 public:
  // Bytes that Create() takes for `capacity` keys; saturates at the largest int64.
  static int64_t Bytes(const KeyValueFormat& format, int64_t capacity);

  // Room for `capacity` keys. RESOURCE_EXHAUSTED if `buffers` finds no memory.
  static absl::StatusOr<PackedKeyValue> Create(const KeyValueFormat& format, int64_t capacity, BufferPool& buffers);

  // Keys and values that are read where they lie, the rows of the whole sequence, which can be read up to a multiple of
  // kKeyGranule: only if format.in_place. They must stay there for as long as this is read.
  static PackedKeyValue InPlace(const KeyValueFormat& format, const SourceRows& keys, const SourceRows& values);

  // Only if format().share_values, before any block is packed: where the values of the sequence to come lie. They must
  // stay there for as long as this is read.
  void ShareValues(const SourceRows& values);

  // Packs the key block that begins at key `block` * kKeyBlock: what `keys` and `values`, the rows of the whole
  // sequence (keys.count of both, at most capacity()), have in it, and zeros up to a multiple of kKeyGranule.
  void PackBlock(int64_t block, const SourceRows& keys, const SourceRows& values);

  // The key panels, or rows if format().in_place, and the values [.., padded value_dim], from key `first` on, a
  // multiple of kKeyGranule. Readable up to the last packed key of its key block, rounded up to a multiple of
  // kKeyGranule.
  const void* Keys(int64_t first) const;
  const void* Values(int64_t first) const;

  // Whether `keys` values from `first` on, both multiples of kKeyGranule, are all finite in the form that products
  // read.
  bool ValuesFinite(int64_t first, int keys) const;

  const KeyValueFormat& format() const { return format_; }
  int64_t capacity() const { return capacity_; }

 private:
  struct Sections;
  PackedKeyValue(const KeyValueFormat& format, int64_t capacity, Buffer buffer);
  // Rows whose numbers are those that products read: `values`, or what was packed of them.
  SourceRows Multiplied(const SourceRows& values, const void* packed) const;

  KeyValueFormat format_;
  int64_t capacity_ = 0;
  Buffer buffer_;  // panels, then values (of all blocks, or of the one that does not end at a granule), then flags
  int64_t values_offset_ = 0;
  int64_t flags_offset_ = 0;  // a byte per granule: 1 if it holds a value that is not finite
  SourceRows keys_;           // in place
  // The last block of shared values is copied, with zeros after it, where it does not end at a granule.
  SourceRows shared_values_;
};

}  // namespace attend::core

#endif  // ATTEND_CORE_PACKED_KEY_VALUE_H_
