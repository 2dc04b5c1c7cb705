// How many descriptors this process may have, and which of them connections may use.
#ifndef ATTEND_SERVER_DESCRIPTOR_BUDGET_H_
#define ATTEND_SERVER_DESCRIPTOR_BUDGET_H_

#include <cstdint>

namespace attend::server {

// So that calls never take what probes need: some descriptors are kept for HTTP, some for everything else (the
// readiness probe's own connection, files).
struct DescriptorBudget {
  int64_t limit = 0;                 // RLIMIT_NOFILE
  int64_t max_http_connections = 0;  // a quarter of `limit`, at most 512
  int grpc_descriptor_end = 0;       // gRPC connections have numbers below this
};

// The budget of a process that may have `limit` descriptors.
DescriptorBudget DivideDescriptors(int64_t limit);

// Raises the soft limit of this process's descriptors to the hard one: the soft one is often a legacy 1024, and every
// connection needs one.
void RaiseDescriptorLimit();

// The soft limit.
int64_t DescriptorLimit();

}  // namespace attend::server

#endif  // ATTEND_SERVER_DESCRIPTOR_BUDGET_H_
