// Resident memory of this process, from /proc.
#ifndef ATTEND_TESTS_BENCH_RESIDENT_MEMORY_H_
#define ATTEND_TESTS_BENCH_RESIDENT_MEMORY_H_

#include <cstdint>

namespace attend::bench {

// -1 where /proc does not say.
int64_t ResidentBytes();
int64_t PeakResidentBytes();  // since the start, or since ResetPeakResidentBytes

// False where the system does not allow it.
bool ResetPeakResidentBytes();

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_RESIDENT_MEMORY_H_
