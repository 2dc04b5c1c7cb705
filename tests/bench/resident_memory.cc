#include "tests/bench/resident_memory.h"

#include <fstream>
#include <string>

namespace attend::bench {
namespace {

int64_t StatusLine(const std::string& name) {
  constexpr int64_t kKibibyte = 1024;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * kKibibyte;
  }
  return -1;
}

}  // namespace

int64_t ResidentBytes() { return StatusLine("VmRSS"); }

int64_t PeakResidentBytes() { return StatusLine("VmHWM"); }

bool ResetPeakResidentBytes() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

}  // namespace attend::bench
