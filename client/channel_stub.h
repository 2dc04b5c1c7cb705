// The stub that goes through a gRPC channel.
#ifndef ATTEND_CLIENT_CHANNEL_STUB_H_
#define ATTEND_CLIENT_CHANNEL_STUB_H_

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/stub.h"

namespace attend::client {

// Destroyed when no call is in progress, and not on a thread of gRPC's: the last channel of a process waits for them.
class ChannelStub final : public Stub {
 public:
  // Connections of its own to all addresses of `target`, made at the first call. INVALID_ARGUMENT for a target that
  // gRPC cannot parse.
  static absl::StatusOr<std::unique_ptr<ChannelStub>> Create(const std::string& target);

  std::function<void()> Start(CallAttempt attempt, std::function<void(AttemptOutcome)> done) override;
  Connectivity connectivity() const override;

 private:
  explicit ChannelStub(std::shared_ptr<grpc::Channel> channel);

  std::shared_ptr<grpc::Channel> channel_;  // shared: gRPC's stubs want it so
  grpc::GenericStub stub_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_CHANNEL_STUB_H_
