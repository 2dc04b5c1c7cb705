#include "server/process_metrics.h"

#include <sys/resource.h>
#include <sys/times.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "prometheus/metric_type.h"

namespace attend::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(const char* name, const char* help, MetricType type, double value) {
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {metric}};
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Fields of /proc/self/stat by their numbers in proc(5), from 3 on: the name in field 2 may hold anything.
class StatFields {
 public:
  StatFields() {
    const std::string text = ReadFile("/proc/self/stat");
    const size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && name_end + 2 < text.size()) {
      fields_ = absl::StrSplit(absl::string_view(text).substr(name_end + 2), ' ');
    }
  }

  std::optional<double> Get(size_t number) const {
    double value = 0;
    if (number - 3 >= fields_.size() || !absl::SimpleAtod(fields_[number - 3], &value)) return std::nullopt;
    return value;
  }

 private:
  std::vector<std::string> fields_;
};

// When the machine started, in seconds since 1970.
std::optional<double> BootTime() {
  for (const absl::string_view line : absl::StrSplit(ReadFile("/proc/stat"), '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double seconds = 0;
    if (parts.first == "btime" && absl::SimpleAtod(parts.second, &seconds)) return seconds;
  }
  return std::nullopt;
}

void AppendStatMetrics(std::vector<MetricFamily>& families) {
  const StatFields stat;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (const auto user = stat.Get(14), system = stat.Get(15); user && system) {
    families.push_back(Family("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
                              MetricType::Counter, (*user + *system) / ticks));
  }
  if (const auto start = stat.Get(22), boot = BootTime(); start && boot) {
    families.push_back(Family("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
                              MetricType::Gauge, *boot + *start / ticks));
  }
  if (const auto bytes = stat.Get(23)) {
    families.push_back(
        Family("process_virtual_memory_bytes", "Virtual memory size in bytes.", MetricType::Gauge, *bytes));
  }
  if (const auto pages = stat.Get(24)) {
    families.push_back(Family("process_resident_memory_bytes", "Resident memory size in bytes.", MetricType::Gauge,
                              *pages * static_cast<double>(sysconf(_SC_PAGESIZE))));
  }
}

void AppendDescriptorMetrics(std::vector<MetricFamily>& families) {
  std::error_code error;
  double open = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++open;
  }
  if (!error) {
    families.push_back(Family("process_open_fds", "Number of open file descriptors.", MetricType::Gauge, open));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(Family("process_max_fds", "Maximum number of open file descriptors.", MetricType::Gauge,
                              static_cast<double>(limit.rlim_cur)));
  }
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  std::vector<MetricFamily> families;
  AppendStatMetrics(families);
  AppendDescriptorMetrics(families);
  return families;
}

}  // namespace attend::server
