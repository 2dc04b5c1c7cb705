// A process is in one cgroup of the unified hierarchy (version 2) and in one of each hierarchy of version 1. What
// bounds it is the smallest limit from there up to the root, as far as it is mounted here. /proc/self/cgroup gives the
// path in the hierarchy, /proc/self/mountinfo which part of the hierarchy is mounted where. Inside a container that
// part often begins at the container's own cgroup, and the path is the host's: the join below takes the mounted part's
// name off the path, and where the path does not lie under it, the mount point itself is the best that can be seen.
#include "server/machine_limits.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace attend::server {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 62;  // version 1 writes a number near 2^63 where there is no limit

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadFile(path)), &number)) return std::nullopt;
  return number;
}

// A cgroup hierarchy as it is mounted here.
struct Mount {
  std::string root;   // which part of the hierarchy
  std::string point;  // where
  bool unified = false;
  std::vector<std::string> options;  // with version 1, controllers among them
};

// mountinfo writes a space as \040 and so on.
std::string Unescape(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const absl::string_view digits = text.substr(std::min(i + 1, text.size()), 3);
    const bool octal = text[i] == '\\' && digits.size() == 3 &&
                       std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '7'; });
    if (!octal) {
      result += text[i];
      continue;
    }
    result += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
    i += 3;
  }
  return result;
}

std::vector<Mount> ReadMounts(const std::string& root) {
  std::vector<Mount> mounts;
  const std::string text = ReadFile(root + "/proc/self/mountinfo");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    // id parent device root point options... - type source options
    const std::vector<absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> mount = absl::StrSplit(halves[0], ' ');
    const std::vector<absl::string_view> system = absl::StrSplit(halves[1], ' ');
    if (mount.size() < 5 || system.size() < 3 || (system[0] != "cgroup" && system[0] != "cgroup2")) continue;
    mounts.push_back({.root = Unescape(mount[3]),
                      .point = Unescape(mount[4]),
                      .unified = system[0] == "cgroup2",
                      .options = absl::StrSplit(system[2], ',')});
  }
  return mounts;
}

// The process's path in the hierarchy of `controller`, or in the unified one if that is empty.
std::optional<std::string> ReadOwnPath(const std::string& root, absl::string_view controller) {
  const std::string text = ReadFile(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    const bool wanted = controller.empty()
                            ? fields[0] == "0" && fields[1].empty()
                            : std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
    if (wanted) return std::string(fields[2]);
  }
  return std::nullopt;
}

// The folders of the process's own cgroup and of all above it, up to the mount point.
std::vector<std::string> FoldersUpward(const std::string& root, const Mount& mount, absl::string_view path) {
  std::vector<std::string> folders;
  absl::string_view below = path;
  const bool under_mount =
      mount.root == "/" || (absl::ConsumePrefix(&below, mount.root) && (below.empty() || absl::StartsWith(below, "/")));
  if (!under_mount || absl::StartsWith(path, "/..")) below = "";
  while (below.size() > 1) {
    folders.push_back(root + mount.point + std::string(below));
    below = below.substr(0, below.rfind('/'));
  }
  folders.push_back(root + mount.point);
  return folders;
}

// What one folder says; infinite or kNoLimit where it says nothing.
struct FolderLimits {
  double cpus = std::numeric_limits<double>::infinity();
  int64_t memory_bytes = kNoLimit;
};

FolderLimits ReadUnified(const std::string& folder) {
  FolderLimits limits;
  if (const auto bytes = ReadNumber(folder + "/memory.max")) limits.memory_bytes = *bytes;  // "max" is no number
  const std::string text = ReadFile(folder + "/cpu.max");
  const std::vector<absl::string_view> words = absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  int64_t quota = 0;
  int64_t period = 0;
  if (words.size() == 2 && absl::SimpleAtoi(words[0], &quota) && absl::SimpleAtoi(words[1], &period) && period > 0) {
    limits.cpus = static_cast<double>(quota) / static_cast<double>(period);
  }
  return limits;
}

FolderLimits ReadVersion1(const std::string& folder) {
  FolderLimits limits;
  if (const auto bytes = ReadNumber(folder + "/memory.limit_in_bytes")) limits.memory_bytes = *bytes;
  const auto quota = ReadNumber(folder + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(folder + "/cpu.cfs_period_us");
  if (quota.value_or(-1) > 0 && period.value_or(0) > 0) {
    limits.cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  }
  return limits;
}

FolderLimits ReadCgroups(const std::string& root) {
  FolderLimits smallest;
  const auto take = [&](const FolderLimits& limits) {
    smallest.cpus = std::min(smallest.cpus, limits.cpus);
    if (limits.memory_bytes >= 0) smallest.memory_bytes = std::min(smallest.memory_bytes, limits.memory_bytes);
  };
  for (const Mount& mount : ReadMounts(root)) {
    if (mount.unified) {
      const auto path = ReadOwnPath(root, "");
      if (!path.has_value()) continue;
      for (const std::string& folder : FoldersUpward(root, mount, *path)) take(ReadUnified(folder));
      continue;
    }
    for (const absl::string_view controller : {"memory", "cpu"}) {
      const bool mounted = std::find(mount.options.begin(), mount.options.end(), controller) != mount.options.end();
      const auto path = mounted ? ReadOwnPath(root, controller) : std::nullopt;
      if (!path.has_value()) continue;
      for (const std::string& folder : FoldersUpward(root, mount, *path)) take(ReadVersion1(folder));
    }
  }
  return smallest;
}

int64_t ReadPhysicalMemory(const std::string& root) {
  const std::string text = ReadFile(root + "/proc/meminfo");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t kilobytes = 0;
    if (!absl::ConsumePrefix(&line, "MemTotal:") || !absl::ConsumeSuffix(&line, "kB")) continue;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kilobytes)) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

MachineLimits ReadMachineLimits(int affinity, const std::string& root) {
  const FolderLimits cgroups = ReadCgroups(root);
  MachineLimits limits;
  limits.cpus = static_cast<int>(std::max(1.0, std::floor(std::min<double>(affinity, cgroups.cpus))));
  limits.memory_bytes = ReadPhysicalMemory(root);
  if (cgroups.memory_bytes < kNoLimit && (limits.memory_bytes == 0 || cgroups.memory_bytes < limits.memory_bytes)) {
    limits.memory_bytes = cgroups.memory_bytes;
  }
  return limits;
}

int AffinityCount() {
  // The mask must be as long as the kernel's, which only trying tells.
  for (size_t processors = 1024; processors <= size_t{1} << 20; processors *= 2) {
    cpu_set_t* const mask = CPU_ALLOC(processors);
    const size_t bytes = CPU_ALLOC_SIZE(processors);
    const bool known = mask != nullptr && sched_getaffinity(0, bytes, mask) == 0;
    const int count = known ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (known) return std::max(1, count);
  }
  return 1;
}

}  // namespace attend::server
