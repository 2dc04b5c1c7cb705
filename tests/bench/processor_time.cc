#include "tests/bench/processor_time.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

namespace attend::bench {
namespace {

// Of all processes but this one: user + nice + system of the first line of /proc/stat, in ticks, less our own.
double OtherSeconds() {
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0;
  stat >> label >> user >> nice >> system;
  return (user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK)) - ProcessorSeconds();
}

}  // namespace

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double ProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

OtherLoad::OtherLoad() : start_(WallSeconds()), others_(OtherSeconds()) {}

double OtherLoad::Share() const {
  const double processors = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(0.0, OtherSeconds() - others_) / ((WallSeconds() - start_) * processors);
}

}  // namespace attend::bench
