#include "server/server.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/buffer_pool.h"
#include "core/clock.h"
#include "core/compute_pool.h"
#include "core/tile_kernels.h"
#include "server/admission.h"
#include "server/attend_backend.h"
#include "server/attention_service.h"
#include "server/backlog.h"
#include "server/call_registry.h"
#include "server/connection_acceptor.h"
#include "server/connection_watch.h"
#include "server/deadline_watch.h"
#include "server/descriptor_budget.h"
#include "server/grpc_listener.h"
#include "server/health_service.h"
#include "server/http_server.h"
#include "server/idle_memory.h"
#include "server/listening_address.h"
#include "server/metrics.h"
#include "server/readiness.h"
#include "server/ready_file.h"
#include "server/receive_gate.h"
#include "server/reflection_service.h"
#include "server/request_log.h"
#include "server/security.h"
#include "server/settings_table.h"
#include "server/version.h"
#include "server/warm_up.h"

namespace attend::server {
namespace {

// How long blocks of memory are kept for the next request.
constexpr absl::Duration kIdlePatience = absl::Seconds(5);
constexpr absl::Duration kPortCheckTimeout = absl::Seconds(1);
// How soon a connection that sends what nothing explains is noticed.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(100);
// What one may send unasked: HTTP/2's window and frames for each call, a handshake, pings.
constexpr int64_t kUnaskedBytesPerCall = 68 << 10;
constexpr int64_t kBytesBesidesCalls = 1 << 20;
constexpr int64_t kBytesPerSecond = 256;

// What is listened on. Bound before anything takes time: a port in use is known at once.
struct Listening {
  GrpcListener::Addresses grpc;
  std::unique_ptr<ListeningAddress> http;
};

absl::StatusOr<std::unique_ptr<ListeningAddress>> ListenOn(absl::string_view setting, const std::string& address) {
  absl::StatusOr<std::unique_ptr<ListeningAddress>> listening = ListeningAddress::Create(address);
  if (listening.ok()) return listening;
  return absl::UnavailableError(absl::StrCat(setting, " ", listening.status().message()));
}

absl::StatusOr<Listening> ListenOnAll(const Settings& settings) {
  Listening all;
  for (const std::string& address : settings.grpc_addresses) {
    absl::StatusOr<std::unique_ptr<ListeningAddress>> listening = ListenOn("grpc_address", address);
    if (!listening.ok()) return listening.status();
    all.grpc.push_back(*std::move(listening));
  }
  absl::StatusOr<std::unique_ptr<ListeningAddress>> http = ListenOn("http_address", settings.http_address);
  if (!http.ok()) return http.status();
  all.http = *std::move(http);
  return all;
}

ConnectionWatch::Limits WatchLimits(const Settings& settings) {
  return {.max_calls = int64_t{2} * settings.max_streams_per_connection,
          .bytes_per_call = settings.max_metadata_bytes + kUnaskedBytesPerCall,
          .bytes_besides = kBytesBesidesCalls,
          .bytes_per_second = kBytesPerSecond};
}

double Bytes(int64_t bytes) { return static_cast<double>(bytes); }

}  // namespace

// What computes, made and tried before anything listens.
struct Computing {
  explicit Computing(const Settings& settings) : buffers(settings.memory_budget / 4) {}

  absl::Status Start(const Settings& settings) {
    absl::StatusOr<std::unique_ptr<core::TileKernels>> made_kernels =
        core::TileKernels::Create({.workers = settings.compute_threads,
                                   .max_instruction_set = settings.max_instruction_set,
                                   .buffers = &buffers});
    if (!made_kernels.ok()) return made_kernels.status();
    kernels = *std::move(made_kernels);
    absl::StatusOr<std::unique_ptr<core::ComputePool>> made_pool =
        core::ComputePool::Create({.workers = settings.compute_threads});
    if (!made_pool.ok()) return made_pool.status();
    pool = *std::move(made_pool);
    if (absl::Status status = CheckKnownAnswer(*pool, *kernels); !status.ok()) return status;
    absl::StatusOr<double> measured = MeasureRate(*pool, *kernels);
    if (!measured.ok()) return measured.status();
    multiply_adds_per_second = *measured;
    return absl::OkStatus();
  }

  core::BufferPool buffers;
  std::unique_ptr<core::TileKernels> kernels;
  std::unique_ptr<core::ComputePool> pool;
  double multiply_adds_per_second = 0;
};

// Members are destroyed in the reverse order: the listeners first, what calls use last.
class Server::Parts {
 public:
  Parts(const Settings& settings, Log& log, std::unique_ptr<Security> security, std::unique_ptr<Computing> computing);

  absl::Status Listen(Listening listening);

 private:
  friend class Server;
  void AddLiveMetrics();
  void AddConnectionMetrics();
  void AddSecurityMetrics();
  void WarnOfRefusedConnections();

  const Settings settings_;
  const CodecLimits limits_;
  Log& log_;
  const core::Clock& clock_ = core::Clock::Steady();
  const std::unique_ptr<Security> security_;
  const std::unique_ptr<Computing> computing_;
  Metrics metrics_;
  Backlog backlog_;
  ReceiveGate gate_;
  Admission admission_;
  CallRegistry calls_;
  ConnectionWatch connections_;
  DeadlineWatch deadlines_;
  RequestLog request_log_;
  const AttendBackend backend_;
  HealthService health_;
  AttentionService attention_;
  ReflectionService reflection_;
  GenericService generic_;
  const DescriptorBudget descriptors_ = DivideDescriptors(DescriptorLimit());
  std::string grpc_address_;  // the main one of those that gRPC listens on
  std::string http_address_;
  Readiness readiness_;
  IdleMemory idle_memory_{kIdlePatience};
  ConnectionAcceptor::Counts reported_;  // what has been logged of it
  std::unique_ptr<GrpcListener> grpc_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<ReadyFile> ready_file_;
};

Server::Parts::Parts(const Settings& settings, Log& log, std::unique_ptr<Security> security,
                     std::unique_ptr<Computing> computing)
    : settings_(settings),
      limits_{.max_message_bytes = settings.max_message_bytes, .version = std::string(Version())},
      log_(log),
      security_(std::move(security)),
      computing_(std::move(computing)),
      metrics_({.version = std::string(Version()),
                .onednn_version = core::TileKernels::OneDnnVersion(),
                .instruction_set = std::string(core::InstructionSetName(computing_->kernels->instruction_set()))}),
      backlog_({.max_queued_requests = settings.max_queued_requests,
                .workers = settings.compute_threads,
                .initial_rate = computing_->multiply_adds_per_second,
                .seed = std::random_device()()}),
      gate_({.budget_bytes = settings.receive_budget}, backlog_),
      admission_({.memory_budget_bytes = settings.memory_budget}, backlog_),
      connections_(WatchLimits(settings), kWatchInterval),
      request_log_(log, settings.log_requests_per_second),
      backend_{.settings = settings_,
               .limits = limits_,
               .clock = clock_,
               .security = *security_,
               .connections = connections_,
               .buffers = computing_->buffers,
               .kernels = *computing_->kernels,
               .pool = *computing_->pool,
               .backlog = backlog_,
               .gate = gate_,
               .admission = admission_,
               .calls = calls_,
               .deadlines = deadlines_,
               .metrics = metrics_,
               .request_log = request_log_},
      health_(connections_, metrics_),
      attention_(backend_, DescribeServer(backend_, computing_->multiply_adds_per_second)),
      reflection_({v1::AttentionService::service_full_name(), grpc::health::v1::Health::service_full_name(),
                   grpc::reflection::v1alpha::ServerReflection::service_full_name()},
                  *security_, connections_, metrics_),
      generic_(backend_),
      readiness_({.stuck_after = settings.stuck_after,
                  .oldest_progress = [this] { return computing_->pool->oldest_progress(); },
                  .check_port = [this] { return grpc_->CheckAccepts(kPortCheckTimeout); }}) {
  AddLiveMetrics();
  AddSecurityMetrics();
}

void Server::Parts::AddLiveMetrics() {
  const core::ComputePool& pool = *computing_->pool;
  const LiveValue values[] = {
      {"attend_in_flight_requests", "Attend calls from their headers to their end.", false,
       [this] { return Bytes(calls_.in_flight()); }},
      {"attend_queued_requests", "Calls that wait at the receive gate or for memory.", false,
       [this] { return Bytes(backlog_.queued()); }},
      {"attend_memory_reserved_bytes", "Bytes that admitted requests hold.", false,
       [this] { return Bytes(admission_.reserved_bytes()); }},
      {"attend_memory_budget_bytes", "Bytes that admitted requests may hold together.", false,
       [this] { return Bytes(settings_.memory_budget); }},
      {"attend_receiving_bytes", "Bytes charged to messages being received.", false,
       [this] { return Bytes(gate_.receiving_bytes()); }},
      {"attend_compute_busy_seconds_total", "Time that workers spent in tiles and tasks, all together.", true,
       [&pool] { return absl::ToDoubleSeconds(pool.busy_time()); }},
      {"attend_oldest_job_age_seconds", "Time since the oldest running job was submitted; 0 without one.", false,
       [this, &pool] {
         return absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), clock_.Now() - pool.oldest_submission()));
       }},
      {"attend_log_lines_dropped_total", "Lines dropped because the log's queue was full.", true,
       [this] { return Bytes(log_.dropped_lines()); }},
  };
  for (const LiveValue& value : values) metrics_.AddLive(value);
}

void Server::Parts::AddConnectionMetrics() {
  ConnectionAcceptor& acceptor = grpc_->acceptor();
  const LiveValue values[] = {
      {"attend_connections", "Open gRPC connections.", false,
       [&acceptor] { return Bytes(acceptor.open_connections()); }},
      {"attend_connections_refused_total",
       "gRPC connections closed at once.",
       true,
       [&acceptor] { return Bytes(acceptor.counts().refused_for_max_connections); },
       {{"reason", "max_connections"}}},
      {"attend_connections_refused_total",
       "",
       true,
       [&acceptor] { return Bytes(acceptor.counts().refused_for_descriptors); },
       {{"reason", "descriptors"}}},
      {"attend_connections_aborted_total", "gRPC connections aborted for what they cost.", true,
       [this] { return Bytes(connections_.aborted()); }},
      {"attend_accept_pauses_total", "Times that accepting a gRPC connection failed and was put off.", true,
       [&acceptor] { return Bytes(acceptor.counts().pauses); }},
  };
  for (const LiveValue& value : values) metrics_.AddLive(value);
}

void Server::Parts::AddSecurityMetrics() {
  if (security_->certificate_expiry()) {
    metrics_.AddLive({"attend_tls_certificate_expiry_timestamp_seconds",
                      "When the server's certificate, or the first of its chain, expires, in seconds since 1970.",
                      false,
                      [this] { return absl::ToDoubleSeconds(*security_->certificate_expiry() - absl::UnixEpoch()); }});
  }
  metrics_.AddLive({"attend_tls_reload_failures_total", "Sets of certificates that were not used as they are bad.",
                    true, [this] { return Bytes(security_->tls_reload_failures()); }});
  metrics_.AddLive({"attend_token_reload_failures_total", "Files of tokens that were not used as they are bad.", true,
                    [this] { return Bytes(security_->token_reload_failures()); }});
}

// At most one line a time that it is called, whatever the number.
void Server::Parts::WarnOfRefusedConnections() {
  const ConnectionAcceptor::Counts counts = grpc_->acceptor().counts();
  const int64_t for_max = counts.refused_for_max_connections - reported_.refused_for_max_connections;
  const int64_t for_descriptors = counts.refused_for_descriptors - reported_.refused_for_descriptors;
  const int64_t pauses = counts.pauses - reported_.pauses;
  reported_ = counts;
  if (for_max == 0 && for_descriptors == 0 && pauses == 0) return;
  log_.Write(
      LogLevel::kWarning, "connections refused",
      {{"beyond_max_connections", for_max}, {"beyond_descriptors", for_descriptors}, {"accept_failures", pauses}});
}

absl::Status Server::Parts::Listen(Listening listening) {
  GrpcListener::Services services{.named = {&attention_, &health_},
                                  .generic = &generic_,
                                  .credentials = security_->credentials(),
                                  .connections = &connections_};
  if (settings_.reflection) services.named.push_back(&reflection_);
  absl::StatusOr<std::unique_ptr<GrpcListener>> grpc =
      GrpcListener::Create(settings_, services, std::move(listening.grpc), descriptors_.grpc_descriptor_end);
  if (!grpc.ok()) return grpc.status();
  grpc_ = *std::move(grpc);
  grpc_address_ = grpc_->main_address();
  AddConnectionMetrics();
  absl::StatusOr<std::unique_ptr<HttpServer>> http =
      HttpServer::Create(std::move(listening.http), {.ready = [this] { return readiness_.Check(); },
                                                     .metrics = [this] { return metrics_.Text(); },
                                                     .max_connections = descriptors_.max_http_connections});
  if (!http.ok()) return http.status();
  http_ = *std::move(http);
  http_address_ = http_->address();
  if (!settings_.ready_file.empty()) {
    absl::StatusOr<std::unique_ptr<ReadyFile>> file = ReadyFile::Create(
        settings_.ready_file, {.grpc_address = grpc_address_, .http_address = http_address_, .process_id = getpid()});
    if (!file.ok()) return file.status();
    ready_file_ = *std::move(file);
  }
  readiness_.SetReady();
  health_.SetServing(true);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const Settings& settings, Log& log) {
  absl::StatusOr<Listening> listening = ListenOnAll(settings);
  if (!listening.ok()) return listening.status();
  absl::StatusOr<std::unique_ptr<Security>> security = Security::Create(settings, log);
  if (!security.ok()) return security.status();
  auto computing = std::make_unique<Computing>(settings);
  if (absl::Status status = computing->Start(settings); !status.ok()) return status;
  auto parts = std::make_unique<Parts>(settings, log, *std::move(security), std::move(computing));
  if (absl::Status status = parts->Listen(*std::move(listening)); !status.ok()) return status;
  log.Write(LogLevel::kInfo, "settings", {{"effective", DescribeSettings(settings)}});
  if (settings.max_connections > parts->descriptors_.grpc_descriptor_end) {
    log.Write(LogLevel::kWarning, "max_connections is more than descriptors allow: raise the hard limit (ulimit -Hn)",
              {{"max_connections", settings.max_connections}, {"descriptors", parts->descriptors_.limit}});
  }
  if (settings.allow_compression) {
    log.Write(LogLevel::kWarning, "allow_compression is on: a small message may unfold to any size in memory");
  }
  log.Write(LogLevel::kInfo, "ready",
            {{"version", std::string(Version())},
             {"grpc", absl::StrJoin(parts->grpc_->addresses(), ",")},
             {"http", parts->http_->address()},
             {"instruction_set", std::string(core::InstructionSetName(parts->computing_->kernels->instruction_set()))},
             {"multiply_adds_per_second", parts->computing_->multiply_adds_per_second}});
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;

const std::string& Server::grpc_address() const { return parts_->grpc_address_; }
const std::string& Server::http_address() const { return parts_->http_address_; }

void Server::Housekeep() {
  parts_->admission_.DropExpired();
  parts_->security_->Housekeep();
  parts_->WarnOfRefusedConnections();
  parts_->health_.SetServing(parts_->readiness_.CheckServing().ok());
  core::BufferPool& buffers = parts_->computing_->buffers;
  if (parts_->idle_memory_.ShouldTrim({.now = parts_->clock_.Now(),
                                       .idle_bytes = buffers.idle_bytes(),
                                       .calls = parts_->calls_.entered(),
                                       .in_flight = parts_->calls_.in_flight()})) {
    buffers.Trim();
    malloc_trim(0);  // what gRPC received messages into
  }
}

void Server::Reload() { parts_->security_->Reload(); }

void Server::BeginDrain() {
  parts_->readiness_.SetDraining();
  parts_->health_.SetServing(false);
}

void Server::StopAccepting() { parts_->calls_.Close(); }

bool Server::AwaitCalls(absl::Duration timeout) { return parts_->calls_.AwaitNone(timeout); }

}  // namespace attend::server
