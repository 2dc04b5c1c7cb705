// What a channel needs so that a client knows its server and is known to it: read from files, checked, ready for gRPC.
#ifndef ATTEND_CLIENT_CHANNEL_SECURITY_H_
#define ATTEND_CLIENT_CHANNEL_SECURITY_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/attend_client.h"

namespace attend::client {

struct ChannelSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // shared: gRPC's type
  std::string token;                                      // empty: none

  // INVALID_ARGUMENT, one line that names option and file and never shows a token: a file that cannot be read, one that
  // is not what it must be, a certificate without its key.
  static absl::StatusOr<ChannelSecurity> Read(const SecurityOptions& options);
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_CHANNEL_SECURITY_H_
