// Splitting a request must read it as the generated parser does, wherever the transport cuts it.
#include "absl/strings/string_view.h"
#include "proto/wire/split_agreement.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/request_seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(bytes), size);
  for (const size_t slice_size : {size_t{1}, size_t{7}, size + 1}) {
    const std::string difference = attend::wire::SplitDisagreement(input, attend::wire::SlicesOf(input, slice_size));
    if (!difference.empty()) attend::fuzz::BrokenPromise(difference);
  }
  return 0;
}

std::vector<std::string> attend::fuzz::SeedInputs() { return RequestSeeds(); }
