#include "server/descriptor_budget.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace attend::server {
namespace {

constexpr int64_t kMaxHttpConnections = 512;
constexpr int64_t kOtherDescriptors = 16;
constexpr int64_t kMaxDescriptors = std::numeric_limits<int>::max();

}  // namespace

DescriptorBudget DivideDescriptors(int64_t limit) {
  const int64_t http = std::clamp<int64_t>(limit / 4, 1, kMaxHttpConnections);
  const int64_t end = std::clamp<int64_t>(limit - http - kOtherDescriptors, 0, kMaxDescriptors);
  return {.limit = limit, .max_http_connections = http, .grpc_descriptor_end = static_cast<int>(end)};
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t DescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMaxDescriptors;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kMaxDescriptors));
}

}  // namespace attend::server
