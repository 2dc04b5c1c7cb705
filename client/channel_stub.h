// The stub that goes through a gRPC channel.
#ifndef ATTEND_CLIENT_CHANNEL_STUB_H_
#define ATTEND_CLIENT_CHANNEL_STUB_H_

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/attend_client.h"
#include "client/stub.h"

namespace attend::client {

// Destroyed when no call is in progress, and not on a thread of gRPC's: the last channel of a process waits for them.
class ChannelStub final : public Stub {
 public:
  // Connections of its own to all addresses of the target, made at the first call. INVALID_ARGUMENT for a target that
  // gRPC cannot parse, and for files that cannot be used.
  static absl::StatusOr<std::unique_ptr<ChannelStub>> Create(const ClientOptions& options);

  std::function<void()> Start(CallAttempt attempt, std::function<void(AttemptOutcome)> done) override;
  Connectivity connectivity() const override;

 private:
  ChannelStub(std::shared_ptr<grpc::Channel> channel, const std::string& token);

  const std::string authorization_;         // of every call; empty: none
  std::shared_ptr<grpc::Channel> channel_;  // shared: gRPC's stubs want it so
  grpc::GenericStub stub_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_CHANNEL_STUB_H_
