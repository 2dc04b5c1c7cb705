#include "client/channel_security.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attend::client {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Bad(absl::string_view option, absl::string_view path, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(option, " ", path, " ", reason));
}

// In OpenSSL's own words.
absl::Status Unusable(absl::string_view option, absl::string_view path, absl::string_view problem) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return Bad(option, path, absl::StrCat(problem, reason == nullptr ? "" : absl::StrCat(": ", reason)));
}

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Each file is read once: it may be a pipe, `<(print-token)` of a shell. One that nobody writes to is empty, and does
// not wait for a writer.
absl::StatusOr<std::string> ReadFile(absl::string_view option, const std::string& path) {
  if (path.empty()) return std::string();
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return Bad(option, path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  fcntl(descriptor, F_SETFL, 0);
  const std::unique_ptr<FILE, decltype(&fclose)> file(fdopen(descriptor, "rb"), &fclose);
  std::string content(kMaxFileBytes + 1, '\0');
  content.resize(fread(content.data(), 1, content.size(), file.get()));
  if (ferror(file.get()) != 0) return Bad(option, path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  if (content.size() > kMaxFileBytes) return Bad(option, path, "is too long, must be at most 1 MiB");
  return content;
}

Bio ReadFrom(const std::string& pem) { return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free}; }

// Nobody is there to be asked for a passphrase.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

Certificate NextCertificate(const Bio& pem) {
  return {PEM_read_bio_X509_AUX(pem.get(), nullptr, &NoPassphrase, nullptr), &X509_free};
}

// As gRPC reads them: everything between certificates is skipped, a certificate that is broken spoils all.
absl::Status CheckAuthorities(const std::string& path, const std::string& pem) {
  const Bio bio = ReadFrom(pem);
  int count = 0;
  while (NextCertificate(bio) != nullptr) ++count;
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return Unusable("tls_ca", path, "has a certificate that is broken");
  }
  return count > 0 ? absl::OkStatus() : Bad("tls_ca", path, "has no certificates, must be PEM");
}

absl::Status CheckPair(const SecurityOptions& options, const grpc::SslCredentialsOptions& texts) {
  const Context context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const Certificate certificate = NextCertificate(ReadFrom(texts.pem_cert_chain));
  if (certificate == nullptr || SSL_CTX_use_certificate(context.get(), certificate.get()) != 1) {
    return Unusable("tls_cert", options.tls_cert, "has no certificate that can be used, must be PEM");
  }
  const Key key(PEM_read_bio_PrivateKey(ReadFrom(texts.pem_private_key).get(), nullptr, &NoPassphrase, nullptr),
                &EVP_PKEY_free);
  if (key == nullptr || SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
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
  grpc::SslCredentialsOptions texts;
  for (const auto& [option, path, text] : {std::tuple("tls_ca", &options.tls_ca, &texts.pem_root_certs),
                                           {"tls_cert", &options.tls_cert, &texts.pem_cert_chain},
                                           {"tls_key", &options.tls_key, &texts.pem_private_key}}) {
    absl::StatusOr<std::string> content = ReadFile(option, *path);
    if (!content.ok()) return content.status();
    *text = *std::move(content);
  }
  // gRPC would say what is wrong in its log, and its calls only that there is no server.
  ERR_clear_error();
  absl::Status usable =
      options.tls_ca.empty() ? absl::OkStatus() : CheckAuthorities(options.tls_ca, texts.pem_root_certs);
  ERR_clear_error();
  if (usable.ok() && !options.tls_cert.empty()) usable = CheckPair(options, texts);
  if (!usable.ok()) return usable;
  return grpc::SslCredentials(texts);
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
