// What computing an attention problem takes beyond inputs and results, as attend-server predicts it before it admits a
// request (PredictScratchBytes of core/tiled_attention.h).
#ifndef ATTEND_CLIENT_WORKING_MEMORY_H_
#define ATTEND_CLIENT_WORKING_MEMORY_H_

#include <cstdint>
#include <string>

#include "client/problem_cost.h"

namespace attend::client {

// What a server computes with, as GetServerInfoResponse has it.
struct ComputeSetup {
  int compute_threads = 8;
  std::string instruction_set = "avx512";  // avx2, avx512, avx512_bf16 or amx; anything else counts as avx512
};

struct WorkingMemory {
  int64_t total = 0;   // bytes
  int64_t packed = 0;  // of them those of packed keys and values; 0 where products read them in place
};

// Exact for a server of this version; saturates at the largest int64.
WorkingMemory PredictWorkingMemory(const PlannedProblem& problem, const ProblemCost& cost, const ComputeSetup& setup);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_WORKING_MEMORY_H_
