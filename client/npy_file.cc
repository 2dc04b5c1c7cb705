#include "client/npy_file.h"

#include <algorithm>
#include <span>
#include <utility>

#include "client/input_file.h"

namespace attend::client {

absl::StatusOr<Array> ReadNpyFile(const std::string& path, const NpyReadOptions& options) {
  auto file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  std::string start(static_cast<size_t>(std::min(file->bytes(), kMaxNpyHeaderBytes)), '\0');
  absl::Status status = file->ReadAt(0, std::as_writable_bytes(std::span<char>(start)));
  if (!status.ok()) return status;
  auto header = ParseNpyHeader(start, file->bytes(), options);
  if (!header.ok()) return InFile(path, header.status());
  auto data = AllocateElements(header->data_bytes);
  if (!data.ok()) return InFile(path, data.status());
  status = file->ReadAt(header->data_offset, {data->get(), static_cast<size_t>(header->data_bytes)});
  if (!status.ok()) return status;
  return Array{
      .type = header->type, .shape = std::move(header->shape), .data = *std::move(data), .bytes = header->data_bytes};
}

absl::Status WriteNpy(const NamedArray& array, PendingFile& file) {
  absl::Status status = file.Write(EncodeNpyHeader(array.type, array.shape));
  if (!status.ok()) return status;
  return file.Write(array.data);
}

}  // namespace attend::client
