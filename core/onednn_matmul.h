// The matmul back end on oneDNN's matmul primitives.
//
// Primitives run near the processor's rate at tile size if the scratchpad is the caller's (the default mode may crash
// when threads other than the creator's run a primitive), the keys lie as the library wants them, and OpenMP uses one
// thread: workers call omp_set_num_threads(1) once.
#ifndef ATTEND_CORE_ONEDNN_MATMUL_H_
#define ATTEND_CORE_ONEDNN_MATMUL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/instruction_set.h"
#include "core/matmul.h"

namespace attend::core {

// INTERNAL if oneDNN has no engine for this processor.
absl::StatusOr<std::unique_ptr<Matmul>> CreateOnednnMatmul(int workers);

// Keeps oneDNN from using instructions beyond `set`, in the whole process. FAILED_PRECONDITION if oneDNN was used
// before.
absl::Status LimitOnednn(InstructionSet set);

// "2.6.3": of the library that is loaded.
std::string OnednnVersion();

}  // namespace attend::core

#endif  // ATTEND_CORE_ONEDNN_MATMUL_H_
