// Who may call, and how connections are kept from others: TLS, clients' certificates, tokens, and their files.
#ifndef ATTEND_SERVER_SECURITY_H_
#define ATTEND_SERVER_SECURITY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_context.h"
#include "server/log.h"
#include "server/settings.h"
#include "server/tls_credentials.h"
#include "server/token_table.h"
#include "server/watched_files.h"

namespace attend::server {

// Thread-safe.
class Security {
 public:
  // Reads the files that the settings name. INVALID_ARGUMENT or FAILED_PRECONDITION, one line with setting and path,
  // for one that cannot be used. `log` and `clock` outlive this; `clock` only says when to look at the files again.
  static absl::StatusOr<std::unique_ptr<Security>> Create(const Settings& settings, Log& log,
                                                          const core::Clock& clock = core::Clock::Steady());

  // What connections are served with. This outlives the server that has them.
  std::shared_ptr<grpc::ServerCredentials> credentials() const;

  // Who calls, as a key to tell clients apart: by the certificate's subject, else by the token's name, else by the
  // connection. UNAUTHENTICATED, saying what is missing, for a call that this server does not take; not to be asked for
  // health, which is for everybody.
  absl::StatusOr<std::string> Identify(const grpc::ServerContextBase& context) const;

  // Looks at the files where ten seconds have passed since the last look. Good ones that have changed are used from now
  // on, for new connections and calls. Bad ones are logged and counted once and change nothing.
  void Housekeep();
  // Looks at them now.
  void Reload();

  // The end of the server's certificate, or of the one in its chain that expires first. Absent without TLS.
  std::optional<absl::Time> certificate_expiry() const;
  // Sets of certificate files, and token files, that were not used.
  int64_t tls_reload_failures() const { return tls_reload_failures_; }
  int64_t token_reload_failures() const { return token_reload_failures_; }

 private:
  Security(const Settings& settings, Log& log, const core::Clock& clock)
      : settings_(settings), log_(log), clock_(clock) {}

  absl::Status Start();
  absl::Status UseCertificates(const std::vector<std::string>& contents);
  absl::Status UseTokens(const std::vector<std::string>& contents);
  void Look(WatchedFiles& files, absl::string_view what, std::atomic<int64_t>& failures);
  absl::StatusOr<std::string> FindToken(const grpc::ServerContextBase& context) const;

  const Settings settings_;
  Log& log_;
  const core::Clock& clock_;
  std::shared_ptr<TlsCredentials> tls_;  // shared: gRPC's server has them, too; null without TLS
  std::atomic<int64_t> tls_reload_failures_{0};
  std::atomic<int64_t> token_reload_failures_{0};

  std::mutex looking_;  // guards the files and the time of the next look
  std::optional<WatchedFiles> certificate_files_;
  std::optional<WatchedFiles> token_files_;
  absl::Time next_look_;

  mutable std::mutex mutex_;                  // guards what follows
  std::shared_ptr<const TokenTable> tokens_;  // shared: with calls that look into an old one; null: none are wanted
  absl::Time certificate_expiry_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_SECURITY_H_
