// Safetensors files: whatever the bytes are, no crash, and what is accepted lies within the file, without overlaps, and
// is written so that it is read again.
#include "client/safetensors_file.h"

#include <algorithm>

#include "client/safetensors_header.h"
#include "tests/fuzz/file_of_bytes.h"
#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {
namespace {

void CheckRefusal(const absl::Status& status) {
  if (status.message().empty() || status.message().size() > 1000) BrokenPromise("a message repeats the file");
}

// What the header accepts fills the data, byte by byte.
void CheckEntries(const std::vector<client::SafetensorsEntry>& entries, absl::string_view data) {
  std::vector<int> owners(data.size(), 0);
  for (const client::SafetensorsEntry& entry : entries) {
    for (int64_t i = entry.begin; i < entry.end; ++i) ++owners.at(static_cast<size_t>(i));
    if (entry.type && client::ArrayBytes(*entry.type, entry.shape) != entry.end - entry.begin) {
      BrokenPromise("a shape does not take the bytes");
    }
  }
  if (std::any_of(owners.begin(), owners.end(), [](int count) { return count != 1; })) {
    BrokenPromise("a byte that is not one tensor's");
  }
}

// Of the types that can be written.
void CheckWritten(const std::vector<client::SafetensorsEntry>& entries, absl::string_view data) {
  std::vector<client::NamedArray> arrays;
  for (const client::SafetensorsEntry& entry : entries) {
    if (!entry.type) return;
    const auto bytes = std::as_bytes(std::span<const char>(data.data(), data.size()));
    arrays.push_back(
        {.name = entry.name,
         .type = *entry.type,
         .shape = entry.shape,
         .data = bytes.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin))});
  }
  const std::string header = client::EncodeSafetensorsHeader(arrays);
  const auto json = absl::string_view(header).substr(client::kSafetensorsLengthBytes);
  const auto reread = client::ParseSafetensorsHeader(json, static_cast<int64_t>(data.size()));
  if (!reread.ok() || reread->size() != entries.size()) BrokenPromise("a header changes when it is written again");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (reread->at(i).name != entries[i].name || reread->at(i).shape != entries[i].shape ||
        reread->at(i).type != entries[i].type) {
      BrokenPromise("a tensor changes when it is written again");
    }
  }
}

void CheckHeader(absl::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  const auto header_bytes = client::SafetensorsHeaderBytes(bytes.substr(0, client::kSafetensorsLengthBytes), size);
  if (!header_bytes.ok()) return CheckRefusal(header_bytes.status());
  const auto json = bytes.substr(client::kSafetensorsLengthBytes, static_cast<size_t>(*header_bytes));
  const auto data = bytes.substr(client::kSafetensorsLengthBytes + static_cast<size_t>(*header_bytes));
  const auto entries = client::ParseSafetensorsHeader(json, static_cast<int64_t>(data.size()));
  if (!entries.ok()) return CheckRefusal(entries.status());
  CheckEntries(*entries, data);
  CheckWritten(*entries, data);
}

std::string File(absl::string_view json, absl::string_view data) {
  std::string start(1, static_cast<char>(json.size()));
  return absl::StrCat(start, std::string(7, '\0'), json, data);
}

}  // namespace

std::vector<std::string> SeedInputs() {
  return {File(R"({"query":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", "12345678"),
          File(R"({"k":{"dtype":"BF16","shape":[2],"data_offsets":[3,7]},"query":{"shape":[3],)"
               R"("data_offsets":[0,3],"dtype":"BOOL"},"__metadata__":{"a":"b"}} )",
               "1234567"),
          File(R"({"query":{"dtype":"F8_E5M2","shape":[0],"data_offsets":[0,0]}})", ""), File("{}", "")};
}

}  // namespace attend::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  attend::fuzz::CheckHeader(text);
  static attend::fuzz::FileOfBytes file;
  file.Hold(text);
  const auto array = attend::client::ReadSafetensorsFile(file.path(), "query");
  if (!array.ok()) attend::fuzz::CheckRefusal(array.status());
  if (array.ok() && array->bytes > static_cast<int64_t>(size)) attend::fuzz::BrokenPromise("more than the file");
  return 0;
}
