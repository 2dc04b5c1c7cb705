// Every setting does something: those that no other test sets are tried here, beside a server that has the default.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attend/v1/attention.grpc.pb.h"
#include "client/attend_client.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/settings_table.h"
#include "tests/integration/server_calls.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::HasSubstr;

absl::Status Attend(const ServerProcess& server) { return Connect(server)->Attend(SquareProblem(16).request).status(); }

// How a stream of `method` ends whose caller says nothing.
grpc::Status CallWithoutMessage(const ServerProcess& server, const std::string& method) {
  grpc::GenericStub stub(grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
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

TEST(SettingEffectTest, Reflection) {
  constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  for (const bool on : {true, false}) {
    const auto server = StartServer({absl::StrCat("--reflection=", on ? "true" : "false")});
    ASSERT_NE(server, nullptr);
    const grpc::Status status = CallWithoutMessage(*server, kReflection);
    EXPECT_EQ(status.error_code(), on ? grpc::OK : grpc::UNIMPLEMENTED) << status.error_message();
    EXPECT_EQ(server->Stop(), 0);
  }
}

TEST(SettingEffectTest, AllowCompression) {
  for (const bool allowed : {true, false}) {
    const auto server = StartServer({absl::StrCat("--allow_compression=", allowed ? "true" : "false")});
    ASSERT_NE(server, nullptr);
    const auto stub = attend::v1::AttentionService::NewStub(
        grpc::CreateChannel(server->grpc_address(), grpc::InsecureChannelCredentials()));
    for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
      grpc::ClientContext context;
      context.set_compression_algorithm(algorithm);
      attend::v1::AttendRequest request;
      request.set_request_id(std::string(100, 'x'));  // what compresses well; without tensors
      attend::v1::AttendResponse response;
      const grpc::Status status = stub->Attend(&context, request, &response);
      EXPECT_EQ(status.error_code(), allowed ? grpc::INVALID_ARGUMENT : grpc::UNIMPLEMENTED) << status.error_message();
    }
    EXPECT_EQ(server->Stop(), 0);
  }
}

TEST(SettingEffectTest, MaxInstructionSet) {
  const auto server = StartServer({"--max_instruction_set=avx2"});
  ASSERT_NE(server, nullptr);
  const auto description = Connect(*server)->GetServerInfo();
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(description->instruction_set(), "avx2");
  EXPECT_TRUE(Attend(*server).ok());
}

// With 0 whatever computes is stuck.
TEST(SettingEffectTest, StuckAfter) {
  const auto server = StartServer({"--stuck_after=0"});
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->Get("/readyz").value_or(HttpAnswer{}).status, 200);
  const auto client = Connect(*server);
  const SquareProblem problem(32768);
  const client::PendingCall call = client->AttendAsync(problem.request, {}, [](const auto&) {});
  ASSERT_TRUE(server->WaitForMetric("attend_oldest_job_age_seconds", [](double age) { return age > 0; }).ok());
  const HttpAnswer answer = server->Get("/readyz").value_or(HttpAnswer{});
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("has not advanced"));
  call.Cancel();
}

TEST(SettingEffectTest, LogFormat) {
  for (const auto& [format, ready] : {std::pair{"text", " ready version="}, {"json", R"("message":"ready")"}}) {
    const auto server = StartServer({absl::StrCat("--log_format=", format)});
    ASSERT_NE(server, nullptr);
    EXPECT_TRUE(server->WaitForStandardError(ready).ok()) << server->process().StandardError();
  }
}

TEST(SettingEffectTest, LogLevel) {
  const auto server = StartServer({"--log_level=error"});
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(Attend(*server).ok());
  EXPECT_EQ(server->Stop(), 0);
  EXPECT_EQ(server->process().StandardError(), "");
}

TEST(SettingEffectTest, LogRequestsPerSecond) {
  for (const auto& [limit, logged] : {std::pair{100, true}, {0, false}}) {
    const auto server = StartServer({absl::StrCat("--log_requests_per_second=", limit)});
    ASSERT_NE(server, nullptr);
    EXPECT_TRUE(Attend(*server).ok());
    EXPECT_EQ(server->Stop(), 0);
    EXPECT_EQ(absl::StrContains(server->process().StandardError(), "method=Attend"), logged)
        << server->process().StandardError();
  }
}

// A setting that is accepted and ignored would be noticed by nobody: each is set by a test of the whole server.
TEST(SettingEffectTest, EverySettingIsTried) {
  std::string tests;
  for (const char* folder : {ATTEND_SOURCES "/tests", ATTEND_SOURCES "/server"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().string();
      const bool whole = absl::StrContains(path, "/tests/") || absl::EndsWith(path, "/server_test.cc");
      if (whole && absl::EndsWith(path, ".cc")) absl::StrAppend(&tests, ReadFile(path).value_or(""));
    }
  }
  for (const server::Setting& setting : server::SettingsTable()) {
    EXPECT_TRUE(absl::StrContains(tests, absl::StrCat("--", setting.name, "=")))
        << setting.name << " is set by no test of the whole server";
  }
}

}  // namespace
}  // namespace attend::testing
