// gRPC's server credentials for TLS whose certificates are exchanged while connections are served.
#ifndef ATTEND_SERVER_TLS_CREDENTIALS_H_
#define ATTEND_SERVER_TLS_CREDENTIALS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "grpc/grpc_security.h"
#include "grpcpp/security/server_credentials.h"
#include "server/certificate_set.h"

namespace attend::server {

// Of one server. gRPC's file watcher, given a bad pair, would fail every handshake from then on; gRPC asks this for
// news before each handshake instead, and it has only what was checked. Thread-safe.
class TlsCredentials final : public grpc::ServerCredentials {
 public:
  // `set` is checked. With `requires_client_certificate` handshakes without one fail; else those with a bad one do.
  TlsCredentials(CertificateSet set, bool requires_client_certificate);
  ~TlsCredentials() override;

  // For handshakes from now on; connections that there are stay. `set` is checked and has authorities as the first had.
  void Exchange(CertificateSet set);

  // Not for this server: it would ask for health's credentials, too.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override;

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config);

  std::mutex mutex_;
  std::optional<CertificateSet> news_;  // what gRPC has not yet fetched
  grpc_server_credentials* const credentials_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_TLS_CREDENTIALS_H_
