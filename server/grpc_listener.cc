#include "server/grpc_listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/time/time.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/socket_address.h"

namespace attend::server {
namespace {

// gRPC reads and parses what comes on threads of which it has half as many as processors, but two at least: two
// connections with much to parse (headers without end) would keep all others waiting on a small machine. With these the
// processors are shared by the kernel, which is fair.
constexpr int kPollers = 2;

int Milliseconds(absl::Duration duration) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(duration);
  return static_cast<int>(std::clamp<int64_t>(milliseconds, 1, std::numeric_limits<int>::max()));
}

void SetConnectionLimits(const Settings& settings, grpc::ServerBuilder& builder) {
  // Bandwidth probing would let a stream that nobody reads buffer megabytes instead of 64 KiB.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Each thread that polls may hold one such piece beyond what flow control and quota know of; the default is 4 MiB.
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 1 << 20);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, settings.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(settings.max_metadata_bytes));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(settings.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(settings.min_ping_interval));
  if (settings.max_connection_idle != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(settings.max_connection_idle));
  }
  if (settings.max_connection_age != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(settings.max_connection_age));
  }
}

void SetMessageLimits(const Settings& settings, grpc::ServerBuilder& builder) {
  // Our own check, with a message that programs can read, comes at the same moment as gRPC's: when all has arrived.
  builder.SetMaxReceiveMessageSize(-1);
  grpc::ResourceQuota quota("attend");
  quota.Resize(static_cast<size_t>(settings.receive_budget + GrpcListener::kQuotaBesidesMessages));
  builder.SetResourceQuota(quota);
  if (!settings.allow_compression) {
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Create(const Settings& settings, const Services& services,
                                                                   Addresses addresses, int descriptor_end) {
  std::unique_ptr<GrpcListener> listener(new GrpcListener(std::move(addresses)));
  if (absl::Status status = listener->Start(settings, services, descriptor_end); !status.ok()) return status;
  return listener;
}

GrpcListener::~GrpcListener() {
  // gRPC takes no connection once it shuts down, and would not close it.
  acceptor_.reset();
  if (server_ == nullptr) return;
  // Nothing is waited for: an open health Watch would hold Shutdown for its whole deadline.
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  poll_queue_->Shutdown();
  for (std::thread& poller : pollers_) poller.join();
}

absl::Status GrpcListener::Start(const Settings& settings, const Services& services, int descriptor_end) {
  grpc::EnableDefaultHealthCheckService(false);
  watch_ = services.connections;
  grpc::ServerBuilder builder;
  SetConnectionLimits(settings, builder);
  SetMessageLimits(settings, builder);
  using From = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  connections_ = builder.experimental().AddExternalConnectionAcceptor(From::FROM_FD, services.credentials);
  for (grpc::Service* service : services.named) builder.RegisterService(service);
  builder.RegisterCallbackGenericService(services.generic);
  poll_queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    poll_queue_->Shutdown();
    return absl::InternalError("gRPC does not start");
  }
  StartPolling();

  std::vector<int> listeners;
  for (const auto& address : addresses_) {
    for (const Descriptor& socket : address->sockets()) listeners.push_back(socket.number());
  }
  absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> acceptor = ConnectionAcceptor::Create(
      std::move(listeners), {.max_connections = settings.max_connections, .descriptor_end = descriptor_end},
      [this](Descriptor connection, int listener) { Serve(std::move(connection), listener); });
  if (!acceptor.ok()) return acceptor.status();
  acceptor_ = *std::move(acceptor);
  return absl::OkStatus();
}

void GrpcListener::StartPolling() {
  for (int i = 0; i < kPollers; ++i) {
    pollers_.emplace_back([this] {
      void* tag = nullptr;
      bool ok = false;
      while (poll_queue_->Next(&tag, &ok)) continue;
    });
  }
}

void GrpcListener::Serve(Descriptor connection, int listener) {
  // gRPC would log an error for each peer that has gone in the meantime.
  sockaddr_storage peer = {};
  socklen_t length = sizeof(peer);
  if (getpeername(connection.number(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) return;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener;
  watch_->Add(connection.number());
  parameters.fd = connection.Release();
  connections_->HandleNewConnection(&parameters);
}

std::vector<std::string> GrpcListener::addresses() const {
  std::vector<std::string> texts;
  for (const auto& address : addresses_) texts.push_back(address->text());
  return texts;
}

const ListeningAddress& GrpcListener::MainAddress() const {
  const auto found = std::find_if(addresses_.begin(), addresses_.end(),
                                  [](const auto& address) { return !address->address().is_unix; });
  return found == addresses_.end() ? *addresses_.front() : **found;
}

std::string GrpcListener::main_address() const { return MainAddress().text(); }

absl::Status GrpcListener::CheckAccepts(absl::Duration timeout) {
  const int64_t before = acceptor_->counts().accepted;
  if (absl::Status status = CheckListening(MainAddress().address(), timeout); !status.ok()) return status;
  // The kernel has the connection; whether anybody takes it is another matter.
  return acceptor_->AwaitAccepted(before, timeout);
}

}  // namespace attend::server
