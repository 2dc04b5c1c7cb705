#include "client/channel_security.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attend::client {
namespace {

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

absl::Status Bad(absl::string_view option, absl::string_view path, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(option, " ", path, " ", reason));
}

// In OpenSSL's own words.
absl::Status Unusable(absl::string_view option, absl::string_view path, absl::string_view problem) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return Bad(option, path, absl::StrCat(problem, reason == nullptr ? "" : absl::StrCat(": ", reason)));
}

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadFile(absl::string_view option, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::string content(kMaxFileBytes + 1, '\0');
  // Of a folder, which can be opened, this is the first that fails; iterators would throw.
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.is_open() || file.bad()) return Bad(option, path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  content.resize(static_cast<size_t>(file.gcount()));
  if (content.size() > kMaxFileBytes) return Bad(option, path, "is too long, must be at most 1 MiB");
  return content;
}

// gRPC would say what is wrong in its log, and its calls only that there is no server.
absl::Status CheckFiles(const SecurityOptions& options) {
  const Context context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  // Nobody is there to be asked for a passphrase.
  SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) { return -1; });
  ERR_clear_error();
  if (!options.tls_ca.empty() && SSL_CTX_load_verify_file(context.get(), options.tls_ca.c_str()) != 1) {
    return Bad("tls_ca", options.tls_ca, "has no certificates, must be PEM");
  }
  if (options.tls_cert.empty()) return absl::OkStatus();
  if (SSL_CTX_use_certificate_chain_file(context.get(), options.tls_cert.c_str()) != 1) {
    return Unusable("tls_cert", options.tls_cert, "has no certificate that can be used, must be PEM");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), options.tls_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return Unusable("tls_key", options.tls_key,
                    absl::StrCat("is no key, without a passphrase, of tls_cert ", options.tls_cert));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ReadCredentials(const SecurityOptions& options) {
  if (!options.tls()) return grpc::InsecureChannelCredentials();
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("tls_cert and tls_key must be set together");
  }
  absl::StatusOr<std::string> ca = ReadFile("tls_ca", options.tls_ca);
  if (!ca.ok()) return ca.status();
  absl::StatusOr<std::string> key = ReadFile("tls_key", options.tls_key);
  if (!key.ok()) return key.status();
  absl::StatusOr<std::string> cert = ReadFile("tls_cert", options.tls_cert);
  if (!cert.ok()) return cert.status();
  if (absl::Status status = CheckFiles(options); !status.ok()) return status;
  return grpc::SslCredentials({*std::move(ca), *std::move(key), *std::move(cert)});
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  absl::StatusOr<std::string> content = ReadFile("token_file", path);
  if (!content.ok() || path.empty()) return content;
  const absl::string_view token = absl::StripAsciiWhitespace(*content);
  if (token.empty() || !std::all_of(token.begin(), token.end(), &absl::ascii_isgraph)) {
    return Bad("token_file", path, "must hold one token, printable ASCII without spaces, and nothing else");
  }
  return std::string(token);
}

}  // namespace

absl::StatusOr<ChannelSecurity> ChannelSecurity::Read(const SecurityOptions& options) {
  auto credentials = ReadCredentials(options);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<std::string> token = ReadToken(options.token_file);
  if (!token.ok()) return token.status();
  return ChannelSecurity{.credentials = *std::move(credentials), .token = *std::move(token)};
}

}  // namespace attend::client
