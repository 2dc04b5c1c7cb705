// Whatever the bytes of a request are: it is decoded to a problem that its bytes fit, or refused with a code, a reason
// and details that are promised.
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/violation.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/attend_codec.h"
#include "server/response_writer.h"
#include "server/status_details.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/request_seeds.h"

namespace attend::fuzz {
namespace {

const server::CodecLimits kLimits = {.max_message_bytes = 1 << 20, .version = "1.2.3"};

// What is wrong with an answer; empty if nothing is.
std::string WrongRefusal(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status)) return "refused with an unexpected code";
  const std::optional<core::Violation> violation = core::GetViolation(status);
  if (!violation.has_value() || violation->reason.empty()) return "refused without a reason";
  const grpc::Status on_wire = server::ToGrpcStatus(status);
  if (on_wire.error_details().empty() || on_wire.error_details().size() >= 2048) return "details of a wrong size";
  return "";
}

std::string WrongDecoding(const server::DecodedRequest& request) {
  const core::AttentionProblem& problem = request.problem;
  if (request.tensors.query.size() != problem.QueryBytes() || request.tensors.key.size() != problem.KeyBytes() ||
      request.tensors.value.size() != problem.ValueBytes() || request.tensors.mask.size() != problem.MaskBytes() ||
      request.tensors.bias.size() != problem.BiasBytes()) {
    return "decoded with tensors of other sizes";
  }
  if (request.priority < 1 || request.priority > 9) return "decoded with a priority out of range";
  if (!server::CheckRequestId(request.request_id).ok()) return "decoded with a bad request_id";
  if (server::PredictResponseBytes(problem) > kLimits.max_message_bytes) return "decoded with too large a response";
  return "";
}

}  // namespace
}  // namespace attend::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  namespace server = attend::server;
  const grpc::Slice slice(bytes, size);
  auto parts = server::ReadAttendRequest(grpc::ByteBuffer(&slice, 1));
  std::string wrong;
  if (!parts.ok()) {
    wrong = attend::fuzz::WrongRefusal(parts.status());
  } else {
    const auto decoded = server::DecodeAttendRequest(*std::move(parts), attend::fuzz::kLimits);
    wrong = decoded.ok() ? attend::fuzz::WrongDecoding(*decoded) : attend::fuzz::WrongRefusal(decoded.status());
  }
  if (wrong.empty()) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(bytes), size);
  attend::fuzz::BrokenPromise(absl::StrCat(wrong, " for the bytes ", absl::BytesToHexString(input)));
}

std::vector<std::string> attend::fuzz::SeedInputs() { return RequestSeeds(); }
