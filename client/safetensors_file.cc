#include "client/safetensors_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/input_file.h"
#include "client/safetensors_header.h"

namespace attend::client {
namespace {

absl::StatusOr<std::string> ReadText(const InputFile& file, int64_t offset, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  if (const absl::Status status = file.ReadAt(offset, std::as_writable_bytes(std::span<char>(text))); !status.ok()) {
    return status;
  }
  return text;
}

absl::StatusOr<SafetensorsEntry> FindEntry(std::vector<SafetensorsEntry> entries, const std::string& wanted) {
  std::vector<std::string> names;
  for (SafetensorsEntry& entry : entries) {
    if (entry.name == wanted) return std::move(entry);
    names.push_back(std::move(entry.name));
  }
  return NoArrayNamed(wanted, names);
}

}  // namespace

absl::StatusOr<Array> ReadSafetensorsFile(const std::string& path, const std::string& name) {
  auto file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  const auto start = ReadText(*file, 0, std::min(file->bytes(), kSafetensorsLengthBytes));
  if (!start.ok()) return start.status();
  const auto header_bytes = SafetensorsHeaderBytes(*start, file->bytes());
  if (!header_bytes.ok()) return InFile(path, header_bytes.status());
  const auto json = ReadText(*file, kSafetensorsLengthBytes, *header_bytes);
  if (!json.ok()) return json.status();
  const int64_t data_offset = kSafetensorsLengthBytes + *header_bytes;
  auto entries = ParseSafetensorsHeader(*json, file->bytes() - data_offset);
  if (!entries.ok()) return InFile(path, entries.status());
  auto entry = FindEntry(*std::move(entries), name);
  if (!entry.ok()) return InFile(path, entry.status());
  if (!entry->type) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", Excerpt(name), ": the elements are ",
                                                   Excerpt(entry->dtype), ", must be F32, F16, BF16, BOOL or I64"));
  }
  const int64_t bytes = entry->end - entry->begin;
  auto data = AllocateElements(bytes);
  if (!data.ok()) return InFile(path, data.status());
  const absl::Status status = file->ReadAt(data_offset + entry->begin, {data->get(), static_cast<size_t>(bytes)});
  if (!status.ok()) return status;
  return Array{.type = *entry->type, .shape = std::move(entry->shape), .data = *std::move(data), .bytes = bytes};
}

absl::Status WriteSafetensors(std::span<const NamedArray> arrays, PendingFile& file) {
  std::vector<NamedArray> in_order;
  for (const int64_t element_bytes : {8, 4, 2, 1}) {
    std::copy_if(arrays.begin(), arrays.end(), std::back_inserter(in_order),
                 [&](const NamedArray& array) { return ArrayElementBytes(array.type) == element_bytes; });
  }
  absl::Status status = file.Write(EncodeSafetensorsHeader(in_order));
  for (const NamedArray& array : in_order) {
    if (status.ok()) status = file.Write(array.data);
  }
  return status;
}

}  // namespace attend::client
