// Problems on their way over the wire and back, for tests that compare a server with the oracle and with core.
#ifndef ATTEND_TESTS_INTEGRATION_WIRE_PROBLEM_H_
#define ATTEND_TESTS_INTEGRATION_WIRE_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "attend/v1/attention.pb.h"
#include "client/attend_client.h"
#include "core/attention_problem.h"
#include "tests/testing/problem_values.h"

namespace attend::testing {

v1::DataType WireType(core::ElementType type);

// The options (but for mask and bias, which are tensors) and results of `problem`, each said explicitly.
v1::AttentionOptions WireOptions(const core::AttentionProblem& problem);
v1::ResultSelection WireResults(const core::AttentionProblem& problem);

// For the client library: tensors, options and results. `bytes` must outlive the call.
client::AttendRequest MakeRequest(const core::AttentionProblem& problem, const ProblemBytes& bytes);

// For a bare stub: query, key and value alone, in the problem's layout and type; options and results are not set.
v1::AttendRequest MakeTensors(const core::AttentionProblem& problem, const ProblemValues& values);

// What came back, as numbers to check. INTERNAL if a tensor is missing, was not asked for, or has another type, shape
// or size than the contract gives it.
absl::StatusOr<ProblemResults> ReadResults(const core::AttentionProblem& problem, const client::AttendResult& result);
absl::StatusOr<ProblemResults> ReadResults(const core::AttentionProblem& problem, const v1::AttendResponse& response);

// MakeRequest, a call, ReadResults.
absl::StatusOr<ProblemResults> ComputeOverWire(client::Client& client, const core::AttentionProblem& problem,
                                               const ProblemValues& values);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_INTEGRATION_WIRE_PROBLEM_H_
