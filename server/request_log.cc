#include "server/request_log.h"

#include "absl/strings/str_cat.h"
#include "core/element_type.h"

namespace attend::server {
namespace {

// The shapes of a problem in one word of the vocabulary each.
void AppendProblem(const core::AttentionProblem& problem, LogFields& fields) {
  const core::AttentionShape& shape = problem.shape();
  fields.push_back({"type", std::string(core::ElementTypeName(problem.type()))});
  fields.push_back({"batch", shape.batch});
  fields.push_back({"query_heads", shape.query_heads});
  fields.push_back({"kv_heads", shape.kv_heads});
  fields.push_back({"query_length", shape.query_length});
  fields.push_back({"key_length", shape.key_length});
  fields.push_back({"head_dim", shape.head_dim});
  fields.push_back({"value_dim", shape.value_dim});
}

void AppendTime(absl::string_view name, absl::Duration time, LogFields& fields) {
  fields.push_back({name, absl::ToDoubleMilliseconds(time)});
}

}  // namespace

void RequestLog::Write(const RequestRecord& record, absl::Time now) {
  const std::optional<int64_t> skipped = sampler_.Admit(now);
  if (!skipped) return;
  LogFields fields = {{"id", record.id},
                      {"method", std::string(record.method)},
                      {"peer", record.peer},
                      {"code", absl::StatusCodeToString(record.status.code())}};
  if (!record.client.empty() && record.client != record.peer) fields.push_back({"client", record.client});
  if (!record.status.ok()) fields.push_back({"error", std::string(record.status.message())});
  if (record.problem) AppendProblem(*record.problem, fields);
  fields.push_back({"request_bytes", record.request_bytes});
  fields.push_back({"response_bytes", record.response_bytes});
  AppendTime("receive_ms", record.receive, fields);
  AppendTime("queue_ms", record.queue, fields);
  AppendTime("pack_ms", record.pack, fields);
  AppendTime("compute_ms", record.compute, fields);
  AppendTime("total_ms", record.total, fields);
  if (!record.traceparent.empty()) fields.push_back({"traceparent", record.traceparent});
  if (*skipped > 0) fields.push_back({"skipped", *skipped});
  const bool is_bug = record.status.code() == absl::StatusCode::kInternal;
  log_.Write(is_bug ? LogLevel::kError : LogLevel::kInfo, "request", fields);
}

}  // namespace attend::server
