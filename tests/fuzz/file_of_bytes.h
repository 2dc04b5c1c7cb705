// A file in memory whose contents a fuzz target chooses, for readers that take a path.
#ifndef ATTEND_TESTS_FUZZ_FILE_OF_BYTES_H_
#define ATTEND_TESTS_FUZZ_FILE_OF_BYTES_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {

class FileOfBytes {
 public:
  FileOfBytes() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {}
  ~FileOfBytes() { close(descriptor_); }
  FileOfBytes(const FileOfBytes&) = delete;
  FileOfBytes& operator=(const FileOfBytes&) = delete;

  std::string path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

  // Replaces what the file holds.
  void Hold(absl::string_view bytes) {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (ftruncate(descriptor_, size) != 0 || pwrite(descriptor_, bytes.data(), bytes.size(), 0) != size) {
      BrokenPromise("the machine has no memory for the fuzzer's file");
    }
  }

 private:
  const int descriptor_;
};

}  // namespace attend::fuzz

#endif  // ATTEND_TESTS_FUZZ_FILE_OF_BYTES_H_
