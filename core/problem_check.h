// Whether a problem is one: what AttentionProblem::Create() refuses.
#ifndef ATTEND_CORE_PROBLEM_CHECK_H_
#define ATTEND_CORE_PROBLEM_CHECK_H_

#include "absl/status/status.h"
#include "core/attention_problem.h"
#include "core/element_type.h"

namespace attend::core {

// OK, or INVALID_ARGUMENT with a Violation: AttentionProblem::Create() lists them. Sizes are checked last, so that they
// are of axes and counts that make sense.
absl::Status CheckProblem(const AttentionShape& shape, ElementType type, const AttentionOptions& options,
                          const ResultSelection& results);

}  // namespace attend::core

#endif  // ATTEND_CORE_PROBLEM_CHECK_H_
