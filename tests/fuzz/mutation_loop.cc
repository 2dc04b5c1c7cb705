// Runs a fuzz target on mutated seed inputs: mutation_loop [--seed=N] [--runs=N]. A promise broken aborts the process;
// the seed printed at the start brings it back. mutation_loop --write_seeds=FOLDER writes the seed inputs for
// libFuzzer.
#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed), seeds_(SeedInputs()) {}

  // A seed with one to eight mutations.
  std::string Next() {
    std::string input = seeds_[Below(seeds_.size())];
    for (size_t mutations = 1 + Below(8); mutations > 0; --mutations) Mutate(input);
    return input;
  }

 private:
  size_t Below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }

  void Mutate(std::string& input) {
    // Bytes that matter in the wire format: the ends of varints' ranges, group tags, lengths that are too long.
    static constexpr unsigned char kInteresting[] = {0x00, 0x01, 0x07, 0x0b, 0x0c, 0x1a, 0x7f, 0x80, 0xff};
    const size_t place = Below(input.size() + 1);
    const size_t length = Below(input.size() - place + 1);
    switch (Below(7)) {
      case 0:
        if (place < input.size()) input[place] = static_cast<char>(input[place] ^ (1 << Below(8)));
        return;
      case 1:
        if (place < input.size()) input[place] = static_cast<char>(kInteresting[Below(std::size(kInteresting))]);
        return;
      case 2:
        input.insert(place, 1 + Below(10), static_cast<char>(kInteresting[Below(std::size(kInteresting))]));
        return;
      case 3:
        input.erase(place, length);
        return;
      case 4:
        input.resize(place);
        return;
      case 5:
        input.insert(Below(input.size() + 1), input.substr(place, length));
        return;
      default: {
        const std::string& other = seeds_[Below(seeds_.size())];
        input.insert(place, other.substr(Below(other.size() + 1)));
        return;
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> seeds_;
};

// The number in "--name=number", if `argument` is that.
bool ReadFlag(const char* argument, const char* prefix, uint64_t& number) {
  if (std::strncmp(argument, prefix, std::strlen(prefix)) != 0) return false;
  number = std::strtoull(argument + std::strlen(prefix), nullptr, 10);
  return true;
}

int WriteSeeds(const std::filesystem::path& folder) {
  size_t count = 0;
  for (const std::string& seed : SeedInputs()) {
    std::ofstream file(folder / ("seed-" + std::to_string(count++)), std::ios::binary);
    file << seed;
    file.close();
    if (!file) BrokenPromise("no seed can be written to " + folder.string());
  }
  return 0;
}

int Run(int argc, char** argv) {
  constexpr char kWriteSeeds[] = "--write_seeds=";
  if (argc == 2 && std::strncmp(argv[1], kWriteSeeds, std::strlen(kWriteSeeds)) == 0) {
    return WriteSeeds(argv[1] + std::strlen(kWriteSeeds));
  }
  uint64_t seed = std::random_device()();
  uint64_t runs = 200'000;
  for (int i = 1; i < argc; ++i) {
    if (ReadFlag(argv[i], "--seed=", seed) || ReadFlag(argv[i], "--runs=", runs)) continue;
    std::fprintf(stderr, "usage: %s [--seed=N] [--runs=N] | --write_seeds=FOLDER\n", argv[0]);
    return 2;
  }
  std::printf("--seed=%llu --runs=%llu\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(runs));
  std::fflush(stdout);
  google::protobuf::SetLogHandler(nullptr);  // it reports each string that is not UTF-8
  Mutator mutator(seed);
  for (uint64_t run = 0; run < runs; ++run) {
    const std::string input = mutator.Next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
  return 0;
}

}  // namespace
}  // namespace attend::fuzz

int main(int argc, char** argv) { return attend::fuzz::Run(argc, argv); }
