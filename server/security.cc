#include "server/security.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"

namespace attend::server {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(10);
constexpr char kTokenMetadata[] = "authorization";
constexpr absl::string_view kScheme = "Bearer ";

// The first value of a property of the caller's certificate, if it has one.
std::optional<std::string> FindProperty(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  if (values.empty()) return std::nullopt;
  return std::string(values.front().data(), values.front().size());
}

// "certificate CN=client": a subject that is empty, as in certificates of workloads, leaves its first other name.
absl::StatusOr<std::string> FindCertificate(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (!FindProperty(*peer, GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
    return absl::UnauthenticatedError(
        "the connection has no client certificate: this server takes calls, other than health, only with one that its "
        "tls_client_ca has signed");
  }
  std::string name = FindProperty(*peer, GRPC_X509_SUBJECT_PROPERTY_NAME).value_or("");
  if (name.empty()) name = FindProperty(*peer, GRPC_X509_SAN_PROPERTY_NAME).value_or("");
  return absl::StrCat("certificate ", name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Security>> Security::Create(const Settings& settings, Log& log,
                                                           const core::Clock& clock) {
  std::unique_ptr<Security> security(new Security(settings, log, clock));
  if (absl::Status status = security->Start(); !status.ok()) return status;
  return security;
}

absl::Status Security::Start() {
  next_look_ = clock_.Now() + kLookInterval;
  if (!settings_.tls_cert.empty()) {
    std::vector<WatchedFiles::File> files = {{"tls_cert", settings_.tls_cert}, {"tls_key", settings_.tls_key}};
    if (!settings_.tls_client_ca.empty()) files.push_back({"tls_client_ca", settings_.tls_client_ca});
    certificate_files_.emplace(std::move(files), [this](const auto& contents) { return UseCertificates(contents); });
    if (const auto used = certificate_files_->Look(); !used.ok()) {
      return absl::Status(used.status().code(), absl::StrCat("TLS: ", used.status().message()));
    }
  }
  if (!settings_.token_file.empty()) {
    token_files_.emplace(std::vector<WatchedFiles::File>{{"token_file", settings_.token_file}},
                         [this](const auto& contents) { return UseTokens(contents); });
    if (const auto used = token_files_->Look(); !used.ok()) return used.status();
    if (tls_ == nullptr) {
      log_.Write(LogLevel::kWarning, "tokens can be read on the way: without tls_cert connections are in the clear");
    }
  }
  return absl::OkStatus();
}

absl::Status Security::UseCertificates(const std::vector<std::string>& contents) {
  CertificateSet set{.certificate = contents[0], .key = contents[1], .client_ca = std::nullopt};
  if (contents.size() > 2) set.client_ca = contents[2];
  const absl::StatusOr<absl::Time> expiry = set.Check(absl::Now());
  if (!expiry.ok()) {
    return absl::Status(expiry.status().code(),
                        absl::StrCat(expiry.status().message(), " (tls_cert=", settings_.tls_cert,
                                     " tls_key=", settings_.tls_key, " tls_client_ca=", settings_.tls_client_ca, ")"));
  }
  if (tls_ == nullptr) {
    tls_ = std::make_shared<TlsCredentials>(std::move(set), settings_.health_requires_client_certificate);
  } else {
    tls_->Exchange(std::move(set));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  certificate_expiry_ = *expiry;
  return absl::OkStatus();
}

absl::Status Security::UseTokens(const std::vector<std::string>& contents) {
  absl::StatusOr<TokenTable> table = TokenTable::Parse(contents[0]);
  if (!table.ok()) {
    return absl::Status(table.status().code(),
                        absl::StrCat("token_file ", settings_.token_file, " ", table.status().message()));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  tokens_ = std::make_shared<const TokenTable>(*std::move(table));
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> Security::credentials() const {
  return tls_ != nullptr ? tls_ : grpc::InsecureServerCredentials();
}

absl::StatusOr<std::string> Security::Identify(const grpc::ServerContextBase& context) const {
  std::string client = context.peer();
  if (!settings_.token_file.empty()) {
    absl::StatusOr<std::string> token = FindToken(context);
    if (!token.ok()) return token;
    client = *std::move(token);
  }
  if (!settings_.tls_client_ca.empty()) {
    absl::StatusOr<std::string> certificate = FindCertificate(context);
    if (!certificate.ok()) return certificate;
    client = *std::move(certificate);
  }
  return client;
}

absl::StatusOr<std::string> Security::FindToken(const grpc::ServerContextBase& context) const {
  const auto [first, last] = context.client_metadata().equal_range(kTokenMetadata);
  if (first == last) {
    return absl::UnauthenticatedError("the call has no token: the metadata must have authorization: Bearer TOKEN");
  }
  const absl::string_view value(first->second.data(), first->second.size());
  if (std::next(first) != last || !absl::StartsWithIgnoreCase(value, kScheme)) {
    return absl::UnauthenticatedError("the metadata authorization must be there once, as Bearer TOKEN");
  }
  std::shared_ptr<const TokenTable> tokens;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tokens = tokens_;
  }
  const std::optional<std::string> name = tokens->Find(value.substr(kScheme.size()));
  if (!name) return absl::UnauthenticatedError("the token is not one of this server's");
  return absl::StrCat("token ", *name);
}

void Security::Housekeep() {
  {
    std::lock_guard<std::mutex> lock(looking_);
    if (clock_.Now() < next_look_) return;
  }
  Reload();
}

void Security::Reload() {
  std::lock_guard<std::mutex> lock(looking_);
  next_look_ = clock_.Now() + kLookInterval;
  if (certificate_files_) Look(*certificate_files_, "certificates", tls_reload_failures_);
  if (token_files_) Look(*token_files_, "tokens", token_reload_failures_);
}

void Security::Look(WatchedFiles& files, absl::string_view what, std::atomic<int64_t>& failures) {
  const absl::StatusOr<bool> used = files.Look();
  if (!used.ok()) {
    ++failures;
    log_.Write(LogLevel::kError, absl::StrCat(what, " not reloaded, those that were loaded stay"),
               {{"error", std::string(used.status().message())}});
  } else if (*used) {
    log_.Write(LogLevel::kInfo, absl::StrCat(what, " reloaded"));
  }
}

std::optional<absl::Time> Security::certificate_expiry() const {
  if (tls_ == nullptr) return std::nullopt;
  std::lock_guard<std::mutex> lock(mutex_);
  return certificate_expiry_;
}

}  // namespace attend::server
