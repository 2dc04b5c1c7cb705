#include "client/npz_file.h"

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/input_file.h"

namespace attend::client {
namespace {

constexpr absl::string_view kSuffix = ".npy";
// Deflate's best: 258 bytes for 2 bits. What claims more is no deflated data.
constexpr uint64_t kMostInflation = 1032;

struct Close {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Close>;
using Entry = std::unique_ptr<zip_file_t, Close>;

// What libzip calls an error, in its words.
class ZipError {
 public:
  explicit ZipError(int code) { zip_error_init_with_code(&error_, code); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  const char* text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_ = {};
};

absl::Status Damaged(absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("is damaged: ", why)); }

absl::StatusOr<Archive> OpenArchive(InputFile file) {
  const int descriptor = std::move(file).Release();
  int code = 0;
  Archive archive(zip_fdopen(descriptor, 0, &code));  // owns the descriptor if it succeeds
  if (archive != nullptr) return archive;
  close(descriptor);
  return absl::InvalidArgumentError(absl::StrCat("it is no npz file, which is a zip archive: ", ZipError(code).text()));
}

absl::StatusOr<zip_uint64_t> FindEntry(zip_t* archive, absl::string_view wanted) {
  std::optional<zip_uint64_t> found;
  std::vector<std::string> names;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* const text = zip_get_name(archive, index, ZIP_FL_ENC_RAW);
    absl::string_view name = text == nullptr ? "" : text;
    if (!absl::ConsumeSuffix(&name, kSuffix)) continue;
    names.emplace_back(name);
    if (name != wanted) continue;
    if (found) return absl::InvalidArgumentError(absl::StrCat("holds two arrays named '", Excerpt(wanted), "'"));
    found = index;
  }
  if (!found) return NoArrayNamed(wanted, names);
  return *found;
}

// What the archive says of an entry, checked against what can be: its bytes when they are read.
absl::StatusOr<int64_t> EntryBytes(zip_t* archive, zip_uint64_t index, int64_t file_bytes) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  zip_stat_t stat = {};
  if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
    return Damaged("the archive does not say how large it is");
  }
  if (stat.encryption_method != ZIP_EM_NONE) return absl::InvalidArgumentError("is encrypted, must not be");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return absl::InvalidArgumentError(
        absl::StrCat("is compressed by method ", stat.comp_method,
                     ", must be stored (method 0) or deflated (method 8), as NumPy does"));
  }
  if (stat.comp_size > static_cast<uint64_t>(file_bytes)) {
    return Damaged(absl::StrCat("it takes ", stat.comp_size, " bytes of a file of ", file_bytes));
  }
  const bool stored = stat.comp_method == ZIP_CM_STORE;
  if (stored ? stat.size != stat.comp_size : stat.size / kMostInflation > stat.comp_size) {
    return Damaged(absl::StrCat("its ", stat.comp_size, " bytes cannot become ", stat.size));
  }
  if (!stored && stat.size > static_cast<uint64_t>(kMaxInflatedBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("is compressed and holds ", stat.size, " bytes, must be at most ", kMaxInflatedBytes));
  }
  return static_cast<int64_t>(stat.size);
}

// Fills `target` with the bytes that come next.
absl::Status ReadNext(zip_file_t* entry, std::span<std::byte> target) {
  while (!target.empty()) {
    const zip_int64_t got = zip_fread(entry, target.data(), target.size());
    if (got < 0) return Damaged(zip_error_strerror(zip_file_get_error(entry)));
    if (got == 0) return Damaged("it ends before its size");
    target = target.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

// Reads beyond the last byte, where libzip compares size and checksum.
absl::Status CheckEnd(zip_file_t* entry) {
  std::byte more = {};
  const zip_int64_t got = zip_fread(entry, &more, 1);
  if (got < 0) return Damaged(zip_error_strerror(zip_file_get_error(entry)));
  return got == 0 ? absl::OkStatus() : Damaged("it goes on after its size");
}

absl::StatusOr<Array> ReadEntry(zip_t* archive, zip_uint64_t index, int64_t bytes, const NpyReadOptions& options) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) return Damaged(zip_error_strerror(zip_get_error(archive)));
  std::string start(static_cast<size_t>(std::min(bytes, kMaxNpyHeaderBytes)), '\0');
  absl::Status status = ReadNext(entry.get(), std::as_writable_bytes(std::span<char>(start)));
  if (!status.ok()) return status;
  auto header = ParseNpyHeader(start, bytes, options);
  if (!header.ok()) return header.status();
  auto data = AllocateElements(header->data_bytes);
  if (!data.ok()) return data.status();
  const auto size = static_cast<size_t>(header->data_bytes);
  const size_t read = start.size() - static_cast<size_t>(header->data_offset);
  std::copy_n(std::as_bytes(std::span<const char>(start)).end() - static_cast<std::ptrdiff_t>(read), read, data->get());
  status = ReadNext(entry.get(), std::span(data->get(), size).subspan(read));
  if (status.ok()) status = CheckEnd(entry.get());
  if (!status.ok()) return status;
  return Array{
      .type = header->type, .shape = std::move(header->shape), .data = *std::move(data), .bytes = header->data_bytes};
}

absl::Status WriteError(zip_t* archive, const PendingFile& file) {
  zip_error_t* const error = zip_get_error(archive);
  const std::string message = absl::StrCat(file.path(), ": cannot be written: ", zip_error_strerror(error));
  const bool of_system = zip_error_system_type(error) == ZIP_ET_SYS;
  const int code = of_system ? zip_error_code_system(error) : 0;
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return full ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

// Adds one array, whose header and elements must stay until the archive is written.
bool AddEntry(zip_t* archive, const NamedArray& array, const std::string& header) {
  constexpr zip_uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01, the first that a zip archive knows
  zip_buffer_fragment_t parts[2] = {};
  parts[0].data = reinterpret_cast<zip_uint8_t*>(const_cast<char*>(header.data()));
  parts[0].length = header.size();
  parts[1].data = reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(array.data.data()));
  parts[1].length = array.data.size();
  zip_source_t* const source = zip_source_buffer_fragment(archive, parts, array.data.empty() ? 1 : 2, 0);
  if (source == nullptr) return false;
  const zip_int64_t index = zip_file_add(archive, absl::StrCat(array.name, kSuffix).c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return false;
  }
  const auto entry = static_cast<zip_uint64_t>(index);
  return zip_set_file_compression(archive, entry, ZIP_CM_STORE, 0) == 0 &&
         zip_file_set_dostime(archive, entry, 0, kFirstDay, 0) == 0;
}

}  // namespace

absl::StatusOr<Array> ReadNpzFile(const std::string& path, const std::string& name, const NpyReadOptions& options) {
  auto file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  const int64_t file_bytes = file->bytes();
  auto archive = OpenArchive(*std::move(file));
  if (!archive.ok()) return InFile(path, archive.status());
  const auto index = FindEntry(archive->get(), name);
  if (!index.ok()) return InFile(path, index.status());
  const std::string array_path = absl::StrCat(path, ":", Excerpt(name));
  const auto bytes = EntryBytes(archive->get(), *index, file_bytes);
  if (!bytes.ok()) return InFile(array_path, bytes.status());
  auto array = ReadEntry(archive->get(), *index, *bytes, options);
  if (!array.ok()) return InFile(array_path, array.status());
  return array;
}

absl::Status WriteNpz(std::span<const NamedArray> arrays, const PendingFile& file) {
  int code = 0;
  Archive archive(zip_open(file.temporary_path().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (archive == nullptr) {
    return absl::UnavailableError(absl::StrCat(file.path(), ": cannot be written: ", ZipError(code).text()));
  }
  std::vector<std::string> headers;
  headers.reserve(arrays.size());
  for (const NamedArray& array : arrays) {
    headers.push_back(EncodeNpyHeader(array.type, array.shape));
    if (!AddEntry(archive.get(), array, headers.back())) return WriteError(archive.get(), file);
  }
  if (zip_close(archive.get()) != 0) return WriteError(archive.get(), file);
  [[maybe_unused]] const zip_t* const closed = archive.release();
  return absl::OkStatus();
}

}  // namespace attend::client
