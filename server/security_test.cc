#include "server/security.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/certificate_authority.h"
#include "tests/testing/fake_clock.h"

namespace attend::server {
namespace {

class SecurityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string prefix = absl::StrCat(::testing::TempDir(), "security_test_", getpid());
    settings_.tls_cert = absl::StrCat(prefix, "_cert");
    settings_.tls_key = absl::StrCat(prefix, "_key");
    settings_.token_file = absl::StrCat(prefix, "_tokens");
    Write(settings_.token_file, "alice:token");
    WritePair(absl::Hours(1));
  }
  void TearDown() override {
    for (const std::string& path : {settings_.tls_cert, settings_.tls_key, settings_.token_file}) {
      std::remove(path.c_str());
    }
  }

  static void Write(const std::string& path, const std::string& content) { std::ofstream(path) << content; }

  void WritePair(absl::Duration end) {
    const testing::SignedCertificate pair = authority_.Sign({.end = end});
    Write(settings_.tls_cert, pair.certificate);
    Write(settings_.tls_key, pair.key);
  }

  const testing::CertificateAuthority authority_{"authority"};
  Settings settings_;
  Log log_{LogFormat::kText, LogLevel::kError};
  testing::FakeClock clock_;
};

TEST_F(SecurityTest, LooksAtItsFilesEveryTenSeconds) {
  const auto security = Security::Create(settings_, log_, clock_);
  ASSERT_TRUE(security.ok()) << security.status();
  const auto first = (*security)->certificate_expiry();
  ASSERT_TRUE(first.has_value());
  WritePair(absl::Hours(2));
  Write(settings_.token_file, "bad");
  clock_.Advance(absl::Seconds(9));
  (*security)->Housekeep();
  EXPECT_EQ((*security)->certificate_expiry(), first);
  EXPECT_EQ((*security)->token_reload_failures(), 0);
  clock_.Advance(absl::Seconds(1));
  (*security)->Housekeep();
  EXPECT_GT((*security)->certificate_expiry(), first);
  EXPECT_EQ((*security)->token_reload_failures(), 1);
  EXPECT_EQ((*security)->tls_reload_failures(), 0);
  WritePair(-absl::Hours(1));
  (*security)->Housekeep();
  EXPECT_EQ((*security)->tls_reload_failures(), 0) << "not yet";
  (*security)->Reload();
  EXPECT_EQ((*security)->tls_reload_failures(), 1) << "at once";
  EXPECT_EQ((*security)->token_reload_failures(), 1) << "as bad as before";
}

TEST_F(SecurityTest, WithoutCertificatesNoneExpires) {
  settings_.tls_cert.clear();
  settings_.tls_key.clear();
  const auto security = Security::Create(settings_, log_, clock_);
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ((*security)->certificate_expiry(), std::nullopt);
}

}  // namespace
}  // namespace attend::server
