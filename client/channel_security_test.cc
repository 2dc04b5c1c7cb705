#include "client/channel_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/certificate_authority.h"

namespace attend::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ChannelSecurityTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : written_) std::remove(path.c_str());
  }

  // The path of a file with this content.
  std::string File(const std::string& content) {
    written_.push_back(absl::StrCat(::testing::TempDir(), "channel_security_test_", written_.size()));
    std::ofstream(written_.back(), std::ios::binary) << content;
    return written_.back();
  }

  static std::string Refusal(const SecurityOptions& options) {
    const absl::Status status = ChannelSecurity::Read(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    return std::string(status.message());
  }

  const testing::CertificateAuthority authority_{"authority"};
  const testing::SignedCertificate pair_ = authority_.Sign({});
  std::vector<std::string> written_;
};

TEST_F(ChannelSecurityTest, WhatIsNoFileIsRefused) {
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(Refusal({.tls_ca = folder}), AllOf(HasSubstr("tls_ca"), HasSubstr("cannot be read")));
  EXPECT_THAT(Refusal({.token_file = folder}), AllOf(HasSubstr("token_file"), HasSubstr("cannot be read")));
  EXPECT_THAT(Refusal({.token_file = "/dev/zero"}), HasSubstr("at most 1 MiB"));
}

TEST_F(ChannelSecurityTest, NothingIsNeeded) {
  const auto security = ChannelSecurity::Read({});
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_NE(security->credentials, nullptr);
  EXPECT_EQ(security->token, "");
}

TEST_F(ChannelSecurityTest, ReadsGoodFiles) {
  const auto security =
      ChannelSecurity::Read({.tls_ca = File(authority_.certificate()),
                             .tls_cert = File(absl::StrCat(pair_.certificate, authority_.certificate())),
                             .tls_key = File(pair_.key),
                             .token_file = File("  the-token\r\n")});
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_NE(security->credentials, nullptr);
  EXPECT_EQ(security->token, "the-token");
}

TEST_F(ChannelSecurityTest, NamesAFileThatCannotBeRead) {
  const std::string cert = File(pair_.certificate);
  EXPECT_THAT(Refusal({.tls_ca = "/nowhere"}), HasSubstr("tls_ca /nowhere cannot be read: No such file"));
  EXPECT_THAT(Refusal({.tls_cert = cert, .tls_key = "/nowhere"}), HasSubstr("tls_key /nowhere cannot be read"));
  EXPECT_THAT(Refusal({.tls_cert = "/nowhere", .tls_key = cert}), HasSubstr("tls_cert /nowhere cannot be read"));
  EXPECT_THAT(Refusal({.token_file = "/nowhere"}), HasSubstr("token_file /nowhere cannot be read"));
}

TEST_F(ChannelSecurityTest, SaysWhatIsNotWhatItMustBe) {
  const std::string text = File("text");
  const std::string cert = File(pair_.certificate);
  const std::string key = File(pair_.key);
  EXPECT_THAT(Refusal({.tls_ca = text}), AllOf(HasSubstr("tls_ca"), HasSubstr(text), HasSubstr("must be PEM")));
  EXPECT_THAT(Refusal({.tls_cert = text, .tls_key = key}), HasSubstr("tls_cert"));
  EXPECT_THAT(Refusal({.tls_cert = cert, .tls_key = text}), HasSubstr("tls_key"));
  EXPECT_THAT(Refusal({.tls_cert = cert, .tls_key = File(authority_.Sign({}).key)}),
              AllOf(HasSubstr("tls_key"), HasSubstr("of tls_cert")));
  EXPECT_THAT(Refusal({.tls_cert = cert}), HasSubstr("tls_cert and tls_key must be set together"));
}

TEST_F(ChannelSecurityTest, AuthoritiesAreCertificatesAllOfThem) {
  const std::string list = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
  EXPECT_THAT(Refusal({.tls_ca = File(list)}), HasSubstr("has no certificates"));
  EXPECT_THAT(Refusal({.tls_ca = File("")}), HasSubstr("has no certificates"));
  const std::string broken = absl::StrReplaceAll(list, {{"X509 CRL", "CERTIFICATE"}});
  EXPECT_THAT(Refusal({.tls_ca = File(authority_.certificate() + broken)}),
              HasSubstr("has a certificate that is broken"));
  const auto security = ChannelSecurity::Read({.tls_ca = File(list + "words\n" + authority_.certificate())});
  EXPECT_TRUE(security.ok()) << security.status();
}

TEST_F(ChannelSecurityTest, APipeIsReadAndOneWithoutAWriterIsEmpty) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "the-token\n", 10), 10);
  close(ends[1]);
  const auto security = ChannelSecurity::Read({.token_file = absl::StrCat("/dev/fd/", ends[0])});
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ(security->token, "the-token");
  close(ends[0]);
  const std::string fifo = File("");
  std::remove(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(Refusal({.token_file = fifo}), HasSubstr("must hold one token"));
  EXPECT_THAT(Refusal({.tls_ca = fifo}), HasSubstr("has no certificates"));
  EXPECT_THAT(Refusal({.tls_cert = fifo, .tls_key = fifo}), HasSubstr("has no certificate that can be used"));
}

TEST_F(ChannelSecurityTest, ATokenFileHoldsOneToken) {
  for (const char* content : {"", "\n", "SECRET SECRET", "SECRET\nSECRET\n", "SECRET\x80"}) {
    EXPECT_THAT(Refusal({.token_file = File(content)}),
                AllOf(HasSubstr("must hold one token"), Not(HasSubstr("SECRET"))));
  }
}

}  // namespace
}  // namespace attend::client
