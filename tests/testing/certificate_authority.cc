#include "tests/testing/certificate_authority.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdlib>

#include "absl/time/clock.h"

namespace attend::testing {
namespace {

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

// A test without certificates has nothing to say.
void Require(bool good) {
  if (!good) std::abort();
}

Key NewKey() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

template <typename Write>
std::string ToText(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new(BIO_s_mem()), &BIO_free_all);
  Require(write(bio.get()) == 1);
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio.get(), &data));
  return {data, size};
}

std::string CertificateText(X509* certificate) {
  return ToText([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), &X509_EXTENSION_free);
  Require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

// Without issuer and signature.
Certificate NewCertificate(EVP_PKEY* key, const CertificateAuthority::Subject& subject) {
  static std::atomic<int> serial{1};
  Certificate certificate(X509_new(), &X509_free);
  X509* const raw = certificate.get();
  const absl::Time now = absl::Now();
  Require(X509_set_version(raw, X509_VERSION_3) == 1 && X509_set_pubkey(raw, key) == 1);
  Require(ASN1_INTEGER_set(X509_get_serialNumber(raw), serial++) == 1);
  ASN1_TIME_set(X509_getm_notBefore(raw), absl::ToTimeT(now + subject.begin));
  ASN1_TIME_set(X509_getm_notAfter(raw), absl::ToTimeT(now + subject.end));
  if (!subject.common_name.empty()) {
    Require(X509_NAME_add_entry_by_txt(X509_get_subject_name(raw), "CN", MBSTRING_ASC,
                                       reinterpret_cast<const unsigned char*>(subject.common_name.c_str()), -1, -1,
                                       0) == 1);
  }
  return certificate;
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& common_name)
    : key_(NewKey()), certificate_(NewCertificate(key_.get(), {.common_name = common_name, .end = absl::Hours(24)})) {
  X509* const raw = certificate_.get();
  Require(X509_set_issuer_name(raw, X509_get_subject_name(raw)) == 1);
  AddExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(raw, raw, NID_subject_key_identifier, "hash");
  Require(X509_sign(raw, key_.get(), EVP_sha256()) > 0);
  certificate_text_ = CertificateText(raw);
}

CertificateAuthority::~CertificateAuthority() = default;

SignedCertificate CertificateAuthority::Sign(const Subject& subject) const {
  const Key key = NewKey();
  const Certificate certificate = NewCertificate(key.get(), subject);
  X509* const raw = certificate.get();
  Require(X509_set_issuer_name(raw, X509_get_subject_name(certificate_.get())) == 1);
  AddExtension(raw, certificate_.get(), NID_subject_alt_name, subject.other_names);
  Require(X509_sign(raw, key_.get(), EVP_sha256()) > 0);
  return {.certificate = CertificateText(raw), .key = ToText([&key](BIO* bio) {
                                                 return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0,
                                                                                 nullptr, nullptr);
                                               })};
}

}  // namespace attend::testing
