// Npz files: whatever the bytes are, no crash, and what is accepted has the bytes of its shape and is no larger than
// deflate can make it.
#include "client/npz_file.h"

#include <zip.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/file_of_bytes.h"
#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {
namespace {

// Few bytes, so that mutations hit what the format is made of.
std::string Archive(const std::vector<std::string>& names, bool deflated) {
  const std::string elements = "xyz";
  std::vector<client::NamedArray> arrays;
  for (const std::string& name : names) {
    arrays.push_back({.name = name,
                      .type = client::ArrayType::kBool,
                      .shape = {3},
                      .data = std::as_bytes(std::span<const char>(elements))});
  }
  const auto file = client::PendingFile::Create(std::filesystem::temp_directory_path() / "npz_file_fuzz");
  if (!file.ok() || !client::WriteNpz(arrays, *file).ok()) BrokenPromise("an archive cannot be written");
  if (deflated) {
    zip_t* const archive = zip_open(file->temporary_path().c_str(), 0, nullptr);
    if (zip_set_file_compression(archive, 0, ZIP_CM_DEFLATE, 9) != 0 || zip_close(archive) != 0) {
      BrokenPromise("an archive cannot be compressed");
    }
  }
  if (!client::ReadNpzFile(file->temporary_path(), "query").ok()) BrokenPromise("what was written cannot be read");
  std::ostringstream bytes;
  bytes << std::ifstream(file->temporary_path(), std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace

std::vector<std::string> SeedInputs() {
  return {Archive({"query"}, false), Archive({"query"}, true), Archive({"key", "query"}, false)};
}

}  // namespace attend::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  namespace client = attend::client;
  static attend::fuzz::FileOfBytes file;
  file.Hold({reinterpret_cast<const char*>(bytes), size});
  const auto array = client::ReadNpzFile(file.path(), "query", {.two_byte_void_is_bfloat16 = true});
  if (!array.ok()) {
    if (array.status().message().size() > 1000) attend::fuzz::BrokenPromise("a message repeats the file");
    return 0;
  }
  if (client::ArrayBytes(array->type, array->shape) != array->bytes) {
    attend::fuzz::BrokenPromise("an array has not the bytes of its shape");
  }
  if (array->bytes / 1032 > static_cast<int64_t>(size)) attend::fuzz::BrokenPromise("more than the bytes can hold");
  return 0;
}
