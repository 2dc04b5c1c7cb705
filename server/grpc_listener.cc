#include "server/grpc_listener.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/socket_address.h"

namespace attend::server {
namespace {

// What gRPC needs besides the messages being received: buffers of connections, metadata, small calls.
constexpr int64_t kQuotaBesidesMessages = int64_t{64} << 20;

int Milliseconds(absl::Duration duration) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(duration);
  return static_cast<int>(std::clamp<int64_t>(milliseconds, 1, std::numeric_limits<int>::max()));
}

void SetConnectionLimits(const Settings& settings, grpc::ServerBuilder& builder) {
  // With SO_REUSEPORT a second server on the port would take half of the first one's calls instead of failing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Bandwidth probing would let a stream that nobody reads buffer megabytes instead of 64 KiB.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
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
  quota.Resize(static_cast<size_t>(settings.receive_budget + kQuotaBesidesMessages));
  builder.SetResourceQuota(quota);
  if (!settings.allow_compression) {
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Create(const Settings& settings, const Services& services) {
  grpc::EnableDefaultHealthCheckService(false);
  if (settings.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetConnectionLimits(settings, builder);
  SetMessageLimits(settings, builder);
  std::vector<int> ports(settings.grpc_addresses.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(settings.grpc_addresses[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  for (grpc::Service* service : services.named) builder.RegisterService(service);
  builder.RegisterCallbackGenericService(services.generic);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();

  std::vector<std::string> addresses;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (server == nullptr || ports[i] == 0) {
      return absl::UnavailableError(
          absl::StrCat("grpc_address ", settings.grpc_addresses[i], " cannot be listened on"));
    }
    addresses.push_back(WithPort(ParseSocketAddress(settings.grpc_addresses[i]), ports[i]));
  }
  return std::unique_ptr<GrpcListener>(new GrpcListener(std::move(server), std::move(addresses)));
}

GrpcListener::GrpcListener(std::unique_ptr<grpc::Server> server, std::vector<std::string> addresses)
    : server_(std::move(server)), addresses_(std::move(addresses)) {}

GrpcListener::~GrpcListener() {
  // Nothing is waited for: an open health Watch would hold Shutdown for its whole deadline.
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace attend::server
