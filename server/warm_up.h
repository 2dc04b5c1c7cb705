// The first problems of a server: one whose answer is known, and one that tells how fast the machine is.
#ifndef ATTEND_SERVER_WARM_UP_H_
#define ATTEND_SERVER_WARM_UP_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compute_pool.h"
#include "core/tile_kernels.h"

namespace attend::server {

// Computes the worked example of docs/protocol.md (three tokens, four dimensions). INTERNAL, with what came out, if the
// output is not the known one to four digits: then this machine or build computes wrongly and must not serve.
absl::Status CheckKnownAnswer(core::ComputePool& pool, core::TileKernels& kernels);

// Multiply-adds per second of a warm problem on all workers, in the fastest element type that `kernels` computes
// natively. Takes about a tenth of a second. An error of the computation if there is one.
absl::StatusOr<double> MeasureRate(core::ComputePool& pool, core::TileKernels& kernels);

}  // namespace attend::server

#endif  // ATTEND_SERVER_WARM_UP_H_
