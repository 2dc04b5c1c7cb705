// Real certificates for tests, made in memory: an authority of the test's own and what it signs.
#ifndef ATTEND_TESTS_TESTING_CERTIFICATE_AUTHORITY_H_
#define ATTEND_TESTS_TESTING_CERTIFICATE_AUTHORITY_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

struct evp_pkey_st;
struct x509_st;

namespace attend::testing {

// PEM texts.
struct SignedCertificate {
  std::string certificate;
  std::string key;
};

// Elliptic keys on P-256. Not thread-safe.
class CertificateAuthority {
 public:
  struct Subject {
    std::string common_name = "localhost";  // empty: no subject at all
    std::string other_names = "DNS:localhost,IP:127.0.0.1";
    absl::Duration begin = -absl::Hours(1);  // from now
    absl::Duration end = absl::Hours(1);
  };

  explicit CertificateAuthority(const std::string& common_name);
  ~CertificateAuthority();
  CertificateAuthority(const CertificateAuthority&) = delete;
  CertificateAuthority& operator=(const CertificateAuthority&) = delete;

  // Its own certificate, which it has signed itself.
  const std::string& certificate() const { return certificate_text_; }

  SignedCertificate Sign(const Subject& subject) const;

 private:
  std::shared_ptr<evp_pkey_st> key_;  // shared: a pointer that knows how to free what is not known here
  std::shared_ptr<x509_st> certificate_;
  std::string certificate_text_;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_CERTIFICATE_AUTHORITY_H_
