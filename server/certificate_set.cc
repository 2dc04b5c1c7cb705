#include "server/certificate_set.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attend::server {
namespace {

// OpenSSL's objects, freed by their own functions.
template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<&BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<&X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<&EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<&SSL_CTX_free>>;

absl::Status Bad(absl::string_view setting, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(setting, " ", reason));
}

// Why OpenSSL refused something, in its own words.
std::string Reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason != nullptr ? reason : "unknown reason";
}

Bio Read(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// Nobody is there to be asked for a passphrase.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

absl::StatusOr<std::vector<Certificate>> ReadCertificates(absl::string_view setting, const std::string& text) {
  const Bio bio = Read(text);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (Certificate certificate{PEM_read_bio_X509(bio.get(), nullptr, &NoPassphrase, nullptr)}) {
    certificates.push_back(std::move(certificate));
  }
  // The end of the text is an error like others.
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!ended) return Bad(setting, absl::StrCat("cannot be parsed: ", Reason()));
  ERR_clear_error();
  if (certificates.empty()) return Bad(setting, "has no certificate, must be PEM");
  return certificates;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? absl::FromTM(parts, absl::UTCTimeZone()) : absl::InfinitePast();
}

absl::Time Begin(const Certificate& certificate) { return ToTime(X509_get0_notBefore(certificate.get())); }
absl::Time End(const Certificate& certificate) { return ToTime(X509_get0_notAfter(certificate.get())); }

absl::Status CheckValidity(const std::vector<Certificate>& chain, absl::Time now) {
  for (const Certificate& certificate : chain) {
    if (now < Begin(certificate)) {
      return Bad("tls_cert", absl::StrCat("is not valid before ", absl::FormatTime(Begin(certificate))));
    }
    if (now > End(certificate)) {
      return Bad("tls_cert", absl::StrCat("has expired on ", absl::FormatTime(End(certificate))));
    }
  }
  return absl::OkStatus();
}

// What the library itself would refuse.
absl::Status CheckUse(const std::vector<Certificate>& chain, const std::string& key_text) {
  ERR_clear_error();
  const Key key(PEM_read_bio_PrivateKey(Read(key_text).get(), nullptr, &NoPassphrase, nullptr));
  if (key == nullptr) return Bad("tls_key", absl::StrCat("has no private key without a passphrase: ", Reason()));
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (SSL_CTX_use_certificate(context.get(), chain.front().get()) != 1) {
    return Bad("tls_cert", absl::StrCat("cannot be used: ", Reason()));
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1) continue;
    return Bad("tls_cert", absl::StrCat("has a chain that cannot be used: ", Reason()));
  }
  ERR_clear_error();
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 || SSL_CTX_check_private_key(context.get()) != 1) {
    return Bad("tls_key", absl::StrCat("does not belong to tls_cert: ", Reason()));
  }
  return absl::OkStatus();
}

absl::Status CheckAuthorities(const std::string& text, absl::Time now) {
  const absl::StatusOr<std::vector<Certificate>> authorities = ReadCertificates("tls_client_ca", text);
  if (!authorities.ok()) return authorities.status();
  const bool any_valid = std::any_of(authorities->begin(), authorities->end(), [now](const Certificate& authority) {
    return Begin(authority) <= now && now <= End(authority);
  });
  return any_valid ? absl::OkStatus() : Bad("tls_client_ca", "has no certificate that is valid now");
}

}  // namespace

absl::StatusOr<absl::Time> CertificateSet::Check(absl::Time now) const {
  const absl::StatusOr<std::vector<Certificate>> chain = ReadCertificates("tls_cert", certificate);
  if (!chain.ok()) return chain.status();
  if (const absl::Status status = CheckValidity(*chain, now); !status.ok()) return status;
  if (const absl::Status status = CheckUse(*chain, key); !status.ok()) return status;
  if (client_ca) {
    if (const absl::Status status = CheckAuthorities(*client_ca, now); !status.ok()) return status;
  }
  absl::Time end = absl::InfiniteFuture();
  for (const Certificate& link : *chain) end = std::min(end, End(link));
  return end;
}

}  // namespace attend::server
