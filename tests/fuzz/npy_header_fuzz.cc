// Headers of npy files: whatever the bytes are, no crash, and what is accepted fits the file.
#include "client/npy_header.h"
#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {
namespace {

void Check(absl::string_view bytes, bool void_is_bfloat16) {
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  const auto start = bytes.substr(0, client::kMaxNpyHeaderBytes);
  const auto header = client::ParseNpyHeader(start, file_bytes, {.two_byte_void_is_bfloat16 = void_is_bfloat16});
  if (!header.ok()) {
    if (header.status().message().size() > 500) BrokenPromise("a message repeats the file");
    return;
  }
  if (header->data_offset + header->data_bytes != file_bytes) BrokenPromise("a header does not fit its file");
  int64_t elements = 1;
  for (const int64_t length : header->shape) {
    if (length < 0) BrokenPromise("a negative length");
    elements = header->data_bytes == 0 ? 0 : elements * length;
  }
  if (elements * client::ArrayElementBytes(header->type) != header->data_bytes && header->data_bytes != 0) {
    BrokenPromise("a shape does not take the bytes");
  }
  // What was read is written so that it is read again.
  const std::string again = client::EncodeNpyHeader(header->type, header->shape);
  const auto size = static_cast<int64_t>(again.size()) + header->data_bytes;
  const auto reread = client::ParseNpyHeader(again, size, {.two_byte_void_is_bfloat16 = true});
  if (!reread.ok() || reread->shape != header->shape || reread->type != header->type) {
    BrokenPromise("a header changes when it is written again");
  }
}

}  // namespace

std::vector<std::string> SeedInputs() {
  using client::ArrayType;
  std::vector<std::string> seeds;
  for (const ArrayType type :
       {ArrayType::kFloat32, ArrayType::kFloat16, ArrayType::kBFloat16, ArrayType::kBool, ArrayType::kInt64}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {0}, {3}, {2, 3}, {1, 2, 1, 2}}) {
      int64_t bytes = client::ArrayElementBytes(type);
      for (const int64_t length : shape) bytes *= length;
      seeds.push_back(client::EncodeNpyHeader(type, shape) + std::string(static_cast<size_t>(bytes), 'x'));
    }
  }
  return seeds;
}

}  // namespace attend::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  attend::fuzz::Check(text, false);
  attend::fuzz::Check(text, true);
  return 0;
}
