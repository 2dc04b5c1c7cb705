// What every fuzz target of this folder defines. Two drivers run them: mutation_loop.cc, a few seconds in ctest from a
// printed seed, and clang's libFuzzer, for hours (see CMakeLists.txt).
#ifndef ATTEND_TESTS_FUZZ_FUZZ_TARGET_H_
#define ATTEND_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Feeds the bytes to the code under test. Aborts, after saying why, if a promise is broken. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace attend::fuzz {

// Well-formed inputs to mutate.
std::vector<std::string> SeedInputs();

// Ends the process with `what` on stderr.
[[noreturn]] void BrokenPromise(const std::string& what);

}  // namespace attend::fuzz

#endif  // ATTEND_TESTS_FUZZ_FUZZ_TARGET_H_
