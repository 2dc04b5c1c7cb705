#include "server/certificate_set.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificate_authority.h"

namespace attend::server {
namespace {

using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::SignedCertificate;
using ::testing::StartsWith;

class CertificateSetTest : public ::testing::Test {
 protected:
  static CertificateSet Set(const SignedCertificate& pair) {
    return {.certificate = pair.certificate, .key = pair.key, .client_ca = std::nullopt};
  }

  // Why the set is refused.
  std::string Refusal(const CertificateSet& set) const {
    const absl::Status status = set.Check(now_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const absl::Time now_ = absl::Now();
  const CertificateAuthority authority_{"authority"};
  const SignedCertificate good_ = authority_.Sign({});
};

TEST_F(CertificateSetTest, AGoodOneSaysWhenItEnds) {
  const absl::StatusOr<absl::Time> end = Set(good_).Check(now_);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_GE(*end, now_ + absl::Minutes(59));
  EXPECT_LE(*end, now_ + absl::Minutes(61));
}

TEST_F(CertificateSetTest, OfAChainTheFirstEndCounts) {
  CertificateSet set = Set(authority_.Sign({.end = absl::Hours(5)}));
  absl::StrAppend(&set.certificate, authority_.Sign({.end = absl::Hours(2)}).certificate, authority_.certificate());
  const absl::StatusOr<absl::Time> end = set.Check(now_);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_LE(*end, now_ + absl::Hours(2));
  EXPECT_GE(*end, now_ + absl::Hours(1));
}

TEST_F(CertificateSetTest, MustBeValidNow) {
  EXPECT_THAT(Refusal(Set(authority_.Sign({.end = -absl::Minutes(1)}))), StartsWith("tls_cert has expired on "));
  EXPECT_THAT(Refusal(Set(authority_.Sign({.begin = absl::Minutes(1)}))), StartsWith("tls_cert is not valid before "));
  CertificateSet set = Set(good_);
  absl::StrAppend(&set.certificate, authority_.Sign({.end = -absl::Minutes(1)}).certificate);
  EXPECT_THAT(Refusal(set), StartsWith("tls_cert has expired on ")) << "one of the chain";
}

TEST_F(CertificateSetTest, TheKeyMustBeThatOfTheCertificate) {
  CertificateSet set = Set(good_);
  set.key = authority_.Sign({}).key;
  EXPECT_THAT(Refusal(set), StartsWith("tls_key does not belong to tls_cert: "));
}

TEST_F(CertificateSetTest, TextsMustBePem) {
  const std::string encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
  for (const std::string& bad : {std::string(), std::string("text"), good_.certificate, encrypted}) {
    CertificateSet set = Set(good_);
    set.key = bad;
    EXPECT_THAT(Refusal(set), StartsWith("tls_key has no private key without a passphrase"));
  }
  for (const std::string& bad : {std::string(), std::string("text"), good_.key}) {
    CertificateSet set = Set(good_);
    set.certificate = bad;
    EXPECT_THAT(Refusal(set), StartsWith("tls_cert has no certificate")) << bad;
  }
  CertificateSet cut = Set(good_);
  cut.certificate.resize(cut.certificate.size() / 2);
  EXPECT_THAT(Refusal(cut), StartsWith("tls_cert cannot be parsed: "));
}

TEST_F(CertificateSetTest, OneValidAuthorityIsEnough) {
  CertificateSet set = Set(good_);
  set.client_ca = authority_.certificate();
  EXPECT_TRUE(set.Check(now_).ok());
  const std::string expired = authority_.Sign({.end = -absl::Minutes(1)}).certificate;
  set.client_ca = absl::StrCat(expired, authority_.certificate());
  EXPECT_TRUE(set.Check(now_).ok());
  set.client_ca = expired;
  EXPECT_THAT(Refusal(set), HasSubstr("tls_client_ca has no certificate that is valid now"));
  set.client_ca = "";
  EXPECT_THAT(Refusal(set), StartsWith("tls_client_ca has no certificate")) << "an empty file turns nothing off";
}

}  // namespace
}  // namespace attend::server
