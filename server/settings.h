// What an operator can set, validated and complete: shares resolved to bytes, defaults filled in.
// settings_table.cc says how each is written and what it does; command_line.h reads them.
#ifndef ATTEND_SERVER_SETTINGS_H_
#define ATTEND_SERVER_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/instruction_set.h"

namespace attend::server {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct Settings {
  std::vector<std::string> grpc_addresses;  // "host:port", "[v6]:port" or "unix:/path"
  std::string http_address;

  int compute_threads = 1;
  int64_t memory_budget = 0;
  int64_t receive_budget = 0;
  // Holds for every call if given; else 60 s, or 10 s + 1 s per MiB where the call announces its size.
  std::optional<absl::Duration> receive_timeout;
  int64_t max_message_bytes = 0;
  int max_queued_requests = 0;

  int max_connections = 0;
  int max_streams_per_connection = 0;
  int64_t max_metadata_bytes = 0;
  absl::Duration handshake_timeout;
  absl::Duration min_ping_interval;
  absl::Duration max_connection_idle;  // infinite: off
  absl::Duration max_connection_age;   // infinite: off

  absl::Duration drain_delay;
  absl::Duration drain_timeout;
  absl::Duration stuck_after;

  // Paths; empty: none. Without tls_cert connections are in the clear.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  std::string token_file;
  bool health_requires_client_certificate = false;

  std::optional<core::InstructionSet> max_instruction_set;
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  int log_requests_per_second = 0;
  std::string ready_file;  // empty: none
  bool allow_compression = false;
  bool reflection = true;

  // INVALID_ARGUMENT where settings contradict each other: max_message_bytes over receive_budget; one of tls_cert and
  // tls_key without the other; what needs TLS, or client certificates, without them.
  absl::Status Validate() const;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_SETTINGS_H_
