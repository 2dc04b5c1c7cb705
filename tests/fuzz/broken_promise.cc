#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {

void BrokenPromise(const std::string& what) {
  std::fprintf(stderr, "broken promise: %s\n", what.c_str());
  std::abort();
}

}  // namespace attend::fuzz
