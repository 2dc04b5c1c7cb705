// What this process may use of its machine, as the kernel and the container's cgroups bound it.
#ifndef ATTEND_SERVER_MACHINE_LIMITS_H_
#define ATTEND_SERVER_MACHINE_LIMITS_H_

#include <cstdint>
#include <string>

namespace attend::server {

struct MachineLimits {
  // Processors: max(1, floor(the smaller of affinity and the cgroups' processor time per second)).
  int cpus = 1;
  // Bytes of memory: the smallest of the machine's own and the cgroups' limits. 0 if not even /proc/meminfo is there.
  int64_t memory_bytes = 0;
};

// Reads <root>/proc/self/cgroup, <root>/proc/self/mountinfo, <root>/proc/meminfo and the cgroup files they lead to:
// version 2 (memory.max, cpu.max) and version 1 (memory.limit_in_bytes, cpu.cfs_quota_us / cpu.cfs_period_us), at every
// level from the process's own cgroup up to the root of the mount. What is missing or unreadable bounds nothing.
// `affinity` is the number of processors in this thread's affinity mask; `root` is empty but in tests.
MachineLimits ReadMachineLimits(int affinity, const std::string& root = "");

// The number of processors in the calling thread's affinity mask, at least 1.
int AffinityCount();

}  // namespace attend::server

#endif  // ATTEND_SERVER_MACHINE_LIMITS_H_
