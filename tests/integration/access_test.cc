// Who gets in: TLS, clients' certificates and tokens against the real server, with real certificates made here.
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/attend_client.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/server_calls.h"
#include "tests/testing/certificate_authority.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
constexpr absl::StatusCode kUnauthenticated = absl::StatusCode::kUnauthenticated;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Certificates and tokens in files, for servers and clients.
class AccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
    WritePair("server", server_authority_.Sign({}));
    WritePair("client", client_authority_.Sign({.common_name = "client"}));
    WritePair("expired", client_authority_.Sign({.common_name = "late", .end = -absl::Minutes(1)}));
    WritePair("stranger", server_authority_.Sign({.common_name = "stranger"}));
    Write("server_ca", server_authority_.certificate());
    Write("client_ca", client_authority_.certificate());
    Write("tokens", "# whom we know\nalice:alices-token\nbob:bobs-token\n");
    Write("token", "alices-token\n");
    Write("wrong_token", "alices-tokem\n");
  }

  std::string File(const std::string& name) const { return folder_->File(name); }
  void Write(const std::string& name, const std::string& content) const { std::ofstream(File(name)) << content; }
  void WritePair(const std::string& name, const SignedCertificate& pair) const {
    Write(absl::StrCat(name, "_cert"), pair.certificate);
    Write(absl::StrCat(name, "_key"), pair.key);
  }

  std::vector<std::string> TlsFlags() const {
    return {absl::StrCat("--tls_cert=", File("server_cert")), absl::StrCat("--tls_key=", File("server_key"))};
  }
  std::vector<std::string> TokenFlags() const { return {absl::StrCat("--token_file=", File("tokens"))}; }
  std::vector<std::string> MutualFlags() const {
    std::vector<std::string> flags = TlsFlags();
    flags.push_back(absl::StrCat("--tls_client_ca=", File("client_ca")));
    return flags;
  }

  void StartServer(std::vector<std::string> flags) {
    server_ = testing::StartServer(std::move(flags));
    ASSERT_NE(server_, nullptr);
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_EQ(server_->Stop(), 0);
    // Whatever was asked and logged, no token and no key.
    EXPECT_THAT(server_->process().StandardError(), AllOf(Not(HasSubstr("s-toke")), Not(HasSubstr("PRIVATE KEY"))));
  }

  std::unique_ptr<client::Client> Connect(const client::SecurityOptions& security) const {
    return testing::Connect(*server_, security);
  }

  static absl::Status Attend(client::Client& client) {
    return client.Attend(SquareProblem(16).request, {.fail_fast = true}).status();
  }

  // One row of the matrix: what a caller gets for Attend, GetServerInfo and health.
  struct Row {
    std::string name;
    client::SecurityOptions security;
    absl::StatusCode attend;
    absl::StatusCode health;
    std::string message = {};  // in what Attend says
  };
  void Check(const Row& row) const {
    SCOPED_TRACE(row.name);
    const auto client = Connect(row.security);
    ASSERT_NE(client, nullptr);
    const absl::Status attend = Attend(*client);
    EXPECT_EQ(attend.code(), row.attend) << attend;
    EXPECT_THAT(std::string(attend.message()), HasSubstr(row.message));
    EXPECT_EQ(client->GetServerInfo({.fail_fast = true}).status().code(), row.attend);
    const auto health = client->CheckHealth("", {.fail_fast = true});
    EXPECT_EQ(health.status().code(), row.health) << health.status();
    if (health.ok()) {
      EXPECT_EQ(*health, client::Health::kServing);
    }
  }

  const CertificateAuthority server_authority_{"servers"};
  const CertificateAuthority client_authority_{"clients"};
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<ServerProcess> server_;
};

std::vector<std::string> Joined(std::vector<std::string> flags, const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST_F(AccessTest, TokensWithoutTls) {
  StartServer(TokenFlags());
  Check({"no token", {}, kUnauthenticated, kOk, "the call has no token"});
  Check({"wrong token", {.token_file = File("wrong_token")}, kUnauthenticated, kOk, "not one of this server's"});
  Check({"right", {.token_file = File("token")}, kOk, kOk});
  EXPECT_TRUE(server_->WaitForStandardError("tokens can be read on the way").ok());
  EXPECT_TRUE(server_->WaitForStandardError(R"(client="token alice")").ok());
  EXPECT_EQ(server_->Metric("attend_rejected_total{reason=\"unauthenticated\"}").value_or(-1), 2);
}

TEST_F(AccessTest, TlsWithTokens) {
  StartServer(Joined(TlsFlags(), TokenFlags()));
  const std::string ca = File("server_ca");
  const std::string token = File("token");
  Check({"no TLS", {.token_file = token}, kUnavailable, kUnavailable});
  Check({"wrong CA", {.tls_ca = File("client_ca"), .token_file = token}, kUnavailable, kUnavailable, "no TLS with"});
  Check({"wrong host",
         {.tls_ca = ca, .tls_server_name = "elsewhere", .token_file = token},
         kUnavailable,
         kUnavailable,
         "no TLS with"});
  Check({"no token", {.tls_ca = ca}, kUnauthenticated, kOk, "the call has no token"});
  Check({"wrong token", {.tls_ca = ca, .token_file = File("wrong_token")}, kUnauthenticated, kOk});
  Check({"right", {.tls_ca = ca, .token_file = token}, kOk, kOk});
  Check({"right name", {.tls_ca = ca, .tls_server_name = "localhost", .token_file = token}, kOk, kOk});
  EXPECT_THAT(server_->process().StandardError(), Not(HasSubstr("can be read on the way")));
  EXPECT_EQ(server_->Get("/readyz").value_or(HttpAnswer{}).status, 200) << "its own connection is no handshake";
}

TEST_F(AccessTest, MutualTls) {
  StartServer(MutualFlags());
  const std::string ca = File("server_ca");
  const auto with = [&](const std::string& pair) {
    return client::SecurityOptions{
        .tls_ca = ca, .tls_cert = File(absl::StrCat(pair, "_cert")), .tls_key = File(absl::StrCat(pair, "_key"))};
  };
  Check({"no TLS", {}, kUnavailable, kUnavailable});
  Check({"no certificate", {.tls_ca = ca}, kUnauthenticated, kOk, "the connection has no client certificate"});
  Check({"of another authority", with("stranger"), kUnavailable, kUnavailable});
  Check({"expired", with("expired"), kUnavailable, kUnavailable});
  Check({"right", with("client"), kOk, kOk});
  EXPECT_TRUE(server_->WaitForStandardError(R"(client="certificate CN=client")").ok());
}

TEST_F(AccessTest, MutualTlsWithTokensWantsBoth) {
  StartServer(Joined(MutualFlags(), TokenFlags()));
  client::SecurityOptions security{
      .tls_ca = File("server_ca"), .tls_cert = File("client_cert"), .tls_key = File("client_key")};
  Check({"no token", security, kUnauthenticated, kOk, "the call has no token"});
  Check({"no certificate",
         {.tls_ca = File("server_ca"), .token_file = File("token")},
         kUnauthenticated,
         kOk,
         "has no client certificate"});
  security.token_file = File("token");
  Check({"right", security, kOk, kOk});
}

TEST_F(AccessTest, HealthToo) {
  StartServer(Joined(MutualFlags(), {"--health_requires_client_certificate=true"}));
  Check({"no certificate", {.tls_ca = File("server_ca")}, kUnavailable, kUnavailable});
  Check({"right",
         {.tls_ca = File("server_ca"), .tls_cert = File("client_cert"), .tls_key = File("client_key")},
         kOk,
         kOk});
  EXPECT_EQ(server_->Get("/readyz").value_or(HttpAnswer{}).status, 200);
}

// A call of `method` without a message, with this metadata.
grpc::Status CallMethod(const std::string& address, const std::string& method,
                        const std::vector<std::string>& authorizations) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  for (const std::string& value : authorizations) context.AddMetadata("authorization", value);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  call->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(AccessTest, EveryMethodButHealthWantsAToken) {
  StartServer(TokenFlags());
  const std::pair<std::string, grpc::StatusCode> methods[] = {
      {"/attend.v1.AttentionService/Attend", grpc::INVALID_ARGUMENT},
      {"/attend.v1.AttentionService/Nothing", grpc::UNIMPLEMENTED},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", grpc::OK}};
  const std::vector<std::string> bad[] = {{},
                                          {"alices-token"},
                                          {"Basic alices-token"},
                                          {"Bearer "},
                                          {"Bearer alices-token "},
                                          {"Bearer alice:alices-token"},
                                          {"Bearer alices-token", "Bearer alices-token"}};
  for (const auto& [method, code] : methods) {
    for (const auto& authorizations : bad) {
      EXPECT_EQ(CallMethod(server_->grpc_address(), method, authorizations).error_code(), grpc::UNAUTHENTICATED)
          << method << ::testing::PrintToString(authorizations);
    }
    for (const char* good : {"Bearer alices-token", "bearer bobs-token"}) {
      EXPECT_EQ(CallMethod(server_->grpc_address(), method, {good}).error_code(), code) << method;
    }
  }
}

class BadFilesTest : public AccessTest {
 protected:
  // What the server says that does not start, which is one line.
  static std::string Refusal(const std::vector<std::string>& flags, int exit_code) {
    ChildProcess::Options options{.command = {ServerProgram(), "--grpc_address=127.0.0.1:0"}};
    options.command.insert(options.command.end(), flags.begin(), flags.end());
    options.command.emplace_back("--http_address=127.0.0.1:0");
    const auto run = RunProgram(std::move(options));
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return "";
    EXPECT_EQ(run->exit.code, exit_code);
    EXPECT_EQ(std::count(run->standard_error.begin(), run->standard_error.end(), '\n'), 1) << run->standard_error;
    EXPECT_THAT(run->standard_error, ::testing::StartsWith("attend-server: "));
    return run->standard_error;
  }
};

TEST_F(BadFilesTest, AServerWithBadFilesDoesNotStart) {
  WritePair("server", server_authority_.Sign({.end = -absl::Minutes(1)}));
  EXPECT_THAT(Refusal(TlsFlags(), 1), HasSubstr("tls_cert has expired"));
  WritePair("server", server_authority_.Sign({}));
  Write("server_key", server_authority_.Sign({}).key);
  EXPECT_THAT(Refusal(TlsFlags(), 1), HasSubstr("tls_key does not belong to tls_cert"));
  EXPECT_THAT(Refusal({"--tls_cert=/nowhere", absl::StrCat("--tls_key=", File("server_key"))}, 1),
              HasSubstr("/nowhere cannot be read: No such file"));
  Write("tokens", "alice:alices-token\nalice:other\n");
  EXPECT_THAT(Refusal(TokenFlags(), 1), AllOf(HasSubstr(File("tokens")), HasSubstr("line 2")));
}

TEST_F(BadFilesTest, APipeKeepsNoServerWaiting) {
  ASSERT_EQ(mkfifo(File("pipe").c_str(), 0600), 0);
  const std::string refusal = absl::StrCat(File("pipe"), " is not a regular file");
  const std::string pipe = File("pipe");
  EXPECT_THAT(Refusal({absl::StrCat("--token_file=", pipe)}, 1), HasSubstr(absl::StrCat("token_file ", refusal)));
  for (const auto& [flag, name] :
       {std::pair{"--tls_cert=", "tls_cert "}, {"--tls_key=", "tls_key "}, {"--tls_client_ca=", "tls_client_ca "}}) {
    EXPECT_THAT(Refusal(Joined(MutualFlags(), {absl::StrCat(flag, pipe)}), 1), HasSubstr(absl::StrCat(name, refusal)));
  }
}

TEST_F(BadFilesTest, SettingsThatBelongTogetherAreWantedTogether) {
  EXPECT_THAT(Refusal({"--tls_cert=a"}, 2), HasSubstr("tls_cert is set, tls_key must be, too"));
  EXPECT_THAT(Refusal({"--tls_key=a"}, 2), HasSubstr("tls_key is set, tls_cert must be, too"));
  EXPECT_THAT(Refusal({"--tls_client_ca=a"}, 2), HasSubstr("tls_client_ca is set"));
  EXPECT_THAT(Refusal(Joined(TlsFlags(), {"--health_requires_client_certificate"}), 2),
              HasSubstr("tls_client_ca must be set, too"));
}

}  // namespace
}  // namespace attend::testing
