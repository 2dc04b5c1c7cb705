// Certificates and tokens are exchanged while calls are served: none is lost, and a bad set changes nothing.
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/attend_client.h"
#include "tests/integration/server_calls.h"
#include "tests/testing/certificate_authority.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kExpiry[] = "attend_tls_certificate_expiry_timestamp_seconds";
constexpr char kBadCertificates[] = "attend_tls_reload_failures_total";
constexpr char kBadTokens[] = "attend_token_reload_failures_total";

class ReloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
    Write("ca", authority_.certificate());
    WritePair(authority_.Sign({}));
    Write("tokens", "alice:first\n");
    Write("first", "first");
    Write("second", "second");
    auto server = ServerProcess::Start(
        {.flags = {absl::StrCat("--tls_cert=", File("cert")), absl::StrCat("--tls_key=", File("key")),
                   absl::StrCat("--token_file=", File("tokens")), "--log_requests_per_second=0"}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_EQ(server_->Stop(), 0) << server_->process().StandardError();
  }

  std::string File(const std::string& name) const { return folder_->File(name); }
  void Write(const std::string& name, const std::string& content) const { std::ofstream(File(name)) << content; }
  void WritePair(const SignedCertificate& pair) const {
    Write("cert", pair.certificate);
    Write("key", pair.key);
  }

  // Waits until the server has looked at its files and says so.
  void Reload(const std::string& sample, double value) {
    server_->process().Signal(SIGHUP);
    const absl::Status status = server_->WaitForMetric(sample, [value](double now) { return now == value; });
    EXPECT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<client::Client> Connect(const std::string& token) const {
    return testing::Connect(*server_, {.tls_ca = File("ca"), .token_file = File(token)});
  }

  static absl::Status Attend(client::Client& client) {
    return client.Attend(SquareProblem(16).request, {.fail_fast = true, .retry = false}).status();
  }

  const CertificateAuthority authority_{"servers"};
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<ServerProcess> server_;
};

// Calls without retries over a connection that stays, and over new ones, until told to stop.
TEST_F(ReloadTest, NoCallIsLostWhileCertificatesChange) {
  std::atomic<bool> stopped{false};
  std::atomic<int> calls{0};
  const auto count = [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    ++calls;
  };
  std::thread steady([&] {
    const auto client = Connect("first");
    while (!stopped) count(Attend(*client));
  });
  std::thread fresh([&] {
    while (!stopped) count(Attend(*Connect("first")));
  });
  const double first = server_->Metric(kExpiry).value_or(0);
  double failures = 0;
  for (int hours = 2; hours < 12; ++hours) {
    const SignedCertificate pair = authority_.Sign({.end = absl::Hours(hours)});
    Write("cert", pair.certificate);
    Reload(kBadCertificates, ++failures);  // the key is still that of the one before
    Write("key", pair.key);
    server_->process().Signal(SIGHUP);
    EXPECT_TRUE(
        server_->WaitForMetric(kExpiry, [&](double end) { return end > first + 3600 * (hours - 1) - 60; }).ok());
  }
  stopped = true;
  steady.join();
  fresh.join();
  EXPECT_GT(calls, 0);
}

TEST_F(ReloadTest, ABadPairKeepsTheOldOneAndIsReportedOnce) {
  const double expiry = server_->Metric(kExpiry).value_or(0);
  WritePair({.certificate = authority_.Sign({.end = absl::Hours(5)}).certificate, .key = authority_.Sign({}).key});
  Reload(kBadCertificates, 1);
  server_->process().Signal(SIGHUP);
  EXPECT_TRUE(Attend(*Connect("first")).ok()) << "over a new connection";
  WritePair(authority_.Sign({.end = -absl::Minutes(1)}));
  Reload(kBadCertificates, 2);
  EXPECT_TRUE(Attend(*Connect("first")).ok());
  EXPECT_EQ(server_->Metric(kExpiry).value_or(0), expiry);
  const std::string log = server_->process().StandardError();
  EXPECT_THAT(log, HasSubstr("certificates not reloaded"));
  EXPECT_THAT(log, HasSubstr("tls_key does not belong to tls_cert"));
  EXPECT_THAT(log, HasSubstr("tls_cert has expired"));
}

TEST_F(ReloadTest, TheNewCertificateIsTheOneThatIsShown) {
  const CertificateAuthority other("others");
  Write("other_ca", other.certificate());
  WritePair(other.Sign({.end = absl::Hours(5)}));
  const auto before = Connect("first");
  EXPECT_TRUE(Attend(*before).ok());
  const double first = server_->Metric(kExpiry).value_or(0);
  server_->process().Signal(SIGHUP);
  ASSERT_TRUE(server_->WaitForMetric(kExpiry, [first](double end) { return end > first; }).ok());
  EXPECT_TRUE(Attend(*before).ok()) << "its connection was there before";
  EXPECT_FALSE(Attend(*Connect("first")).ok()) << "signed by another authority";
  Write("ca", other.certificate());
  EXPECT_TRUE(Attend(*Connect("first")).ok());
}

TEST_F(ReloadTest, TokensChange) {
  const auto first = Connect("first");
  const auto second = Connect("second");
  EXPECT_TRUE(Attend(*first).ok());
  EXPECT_EQ(Attend(*second).code(), absl::StatusCode::kUnauthenticated);
  Write("tokens", "no colon");
  Reload(kBadTokens, 1);
  EXPECT_TRUE(Attend(*first).ok());
  std::remove(File("tokens").c_str());
  ASSERT_EQ(mkfifo(File("tokens").c_str(), 0600), 0);
  Reload(kBadTokens, 2);  // and does not wait for somebody who writes to it
  EXPECT_TRUE(Attend(*first).ok());
  std::remove(File("tokens").c_str());
  Write("tokens", "alice:second");
  server_->process().Signal(SIGHUP);
  ASSERT_TRUE(server_->WaitForStandardError("tokens reloaded").ok());
  EXPECT_TRUE(Attend(*second).ok());
  EXPECT_EQ(Attend(*first).code(), absl::StatusCode::kUnauthenticated) << "over a connection that was there";
}

}  // namespace
}  // namespace attend::testing
