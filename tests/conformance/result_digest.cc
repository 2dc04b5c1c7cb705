// Prints a digest of the results of problems drawn at random, computed by as many workers as the argument says: for a
// test that compares processes (same_bits_across_processes.cmake).
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/conformance/core_runner.h"
#include "tests/testing/random_problem.h"

namespace attend::testing {
namespace {

constexpr int kProblems = 60;
constexpr int64_t kMaxMultiplyAdds = int64_t{1} << 22;

// FNV-1a.
class Digest {
 public:
  void Add(const void* bytes, size_t count) {
    for (size_t n = 0; n < count; ++n) {
      state_ = (state_ ^ static_cast<const unsigned char*>(bytes)[n]) * 0x100000001b3U;
    }
  }
  void Add(const std::vector<float>& numbers) { Add(numbers.data(), numbers.size() * sizeof(float)); }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325U;
};

int PrintDigests(int workers) {
  auto runner = CoreRunner::Create(workers);
  if (!runner.ok()) {
    std::fprintf(stderr, "%s\n", std::string(runner.status().message()).c_str());
    return 1;
  }
  for (int n = 0; n < kProblems; ++n) {
    const ProblemInstance instance = DrawProblem(80'000 + n, kMaxMultiplyAdds);
    const auto results = (*runner)->Run(instance.problem, instance.values);
    if (!results.ok()) {
      std::fprintf(stderr, "%s\n", std::string(results.status().message()).c_str());
      return 1;
    }
    Digest digest;
    digest.Add(results->output.data(), results->output.size());
    for (const std::vector<float>* tensor : {&results->weights, &results->scores, &results->logsumexp}) {
      digest.Add(*tensor);
    }
    std::printf("%016llx %s\n", static_cast<unsigned long long>(digest.value()), Describe(instance.problem).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace attend::testing

int main(int argc, char** argv) {
  int workers = 0;
  if (argc == 2) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), workers);
  if (workers < 1) {
    std::fprintf(stderr, "usage: result_digest WORKERS\n");
    return 2;
  }
  return attend::testing::PrintDigests(workers);
}
