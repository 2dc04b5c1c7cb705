#include "tests/bench/processor_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace attend::bench {
namespace {

double Seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

// user + nice + system of all processors: the first line of /proc/stat, in ticks.
double MachineSeconds() {
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0;
  stat >> label >> user >> nice >> system;
  return (user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::chrono::duration<double> OwnProcessorTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return std::chrono::duration<double>(Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
}

OtherLoad::OtherLoad()
    : start_(std::chrono::steady_clock::now()), machine_(MachineSeconds()), own_(OwnProcessorTime().count()) {}

double OtherLoad::Share() const {
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
  const double others = (MachineSeconds() - machine_) - (OwnProcessorTime().count() - own_);
  return std::max(0.0, others) / (wall.count() * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace attend::bench
