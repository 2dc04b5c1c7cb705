// attend health and attend info against servers of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "attend/client/v1/health.pb.h"
#include "client/command_line_run.h"
#include "client/fake_server.h"
#include "httplib.h"

namespace attend::client {
namespace {

using ::testing::HasSubstr;

CommandLineRun RunHealth(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "health");
  return RunCommandLine(AddHealthCommand, arguments);
}

FakeServer::Handler AnswerHealth(v1::HealthCheckResponse::ServingStatus status) {
  return [status](const FakeCall&) {
    v1::HealthCheckResponse response;
    response.set_status(status);
    return AnswerWith(response);
  };
}

TEST(HealthCommand, SucceedsOnlyWhereTheServerServes) {
  FakeServer server(AnswerHealth(v1::HealthCheckResponse::SERVING_STATUS_SERVING));
  const CommandLineRun run = RunHealth({"--address", server.address()});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.output, "SERVING\n");
  EXPECT_EQ(run.errors, "");
}

TEST(HealthCommand, FailsWhereTheServerDoesNotServe) {
  FakeServer server(AnswerHealth(v1::HealthCheckResponse::SERVING_STATUS_NOT_SERVING));
  const CommandLineRun run = RunHealth({"--address", server.address()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.output, "");
  EXPECT_EQ(run.errors, absl::StrCat("attend: ", server.address(), " is NOT_SERVING\n"));
}

TEST(HealthCommand, FailsForAServiceThatIsNotThere) {
  FakeServer server([](const FakeCall&) { return FailWith(grpc::StatusCode::NOT_FOUND, "unknown service"); });
  const CommandLineRun run = RunHealth({"--address", server.address(), "--service", "nobody"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("SERVICE_UNKNOWN"));
}

TEST(HealthCommand, GivesUpAtItsTimeout) {
  FakeServer server([](const FakeCall&) -> FakeAnswer { return {.never = true}; });
  const CommandLineRun run = RunHealth({"--address", server.address(), "--timeout", "50ms"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.errors, absl::StrCat("attend: no answer from ", server.address(), " within 50ms\n"));
}

// An HTTP server whose /readyz answers `status` with `body`.
class ReadyServer {
 public:
  ReadyServer(int status, const std::string& body) {
    server_.Get("/readyz", [status, body](const httplib::Request&, httplib::Response& response) {
      response.status = status;
      response.set_content(body, "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~ReadyServer() {
    server_.stop();
    thread_.join();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(HealthCommand, AsksReadyzInstead) {
  const ReadyServer ready(200, "ready\n");
  for (const std::string scheme : {"", "http://"}) {
    const CommandLineRun run = RunHealth({"--http", scheme + ready.address()});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(run.output, "ready\n");
  }
}

TEST(HealthCommand, SaysWhyReadyzIsNotReady) {
  const ReadyServer draining(503, "draining\n");
  const CommandLineRun run = RunHealth({"--http", draining.address()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.errors, absl::StrCat("attend: http://", draining.address(), "/readyz answers 503: draining\n"));
}

TEST(HealthCommand, FailsWhereNoHttpServerIs) {
  std::string address;
  { address = ReadyServer(200, "").address(); }  // free again
  const CommandLineRun run = RunHealth({"--http", address});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.errors, absl::StrCat("attend: could not connect to http://", address, "\n"));
}

TEST(HealthCommand, RefusesAnAddressThatIsNone) {
  for (const char* address : {"gopher://127.0.0.1:1", "127.0.0.1:99999999999", "://", "http://", ""}) {
    const CommandLineRun run = RunHealth({"--http", address});
    EXPECT_EQ(run.exit_code, 2) << address << ": " << run.errors;
  }
  EXPECT_EQ(RunHealth({"--http", "127.0.0.1:1", "--service", "s"}).exit_code, 2);
}

attend::v1::GetServerInfoResponse Server() {
  attend::v1::GetServerInfoResponse server;
  server.set_version("1.2.3");
  server.set_onednn_version("2.6.3");
  server.set_instruction_set("amx");
  server.add_native_types(attend::v1::DATA_TYPE_FLOAT32);
  server.add_native_types(attend::v1::DATA_TYPE_BFLOAT16);
  server.set_compute_threads(2);
  server.set_memory_budget_bytes(int64_t{3} << 29);
  server.set_max_message_bytes(int64_t{256} << 20);
  server.set_max_head_dim(1024);
  for (int i = 0; i < 20; ++i) server.add_supported_options(absl::StrCat("option_", i));
  server.add_front_ends("attend.v1");
  server.set_multiply_adds_per_second(1.5e11);
  return server;
}

TEST(ServerInfoCommand, ShowsEveryField) {
  FakeServer server([](const FakeCall&) { return AnswerWith(Server()); });
  const CommandLineRun run = RunCommandLine(AddServerInfoCommand, {"info", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr(absl::StrCat("attend-server 1.2.3 at ", server.address(), "\n")));
  for (const char* text : {"2.6.3\n", "amx\n", "f32, bf16\n", " 2\n", "1.5 GiB\n", "256 MiB\n", "1024\n", "option_0,",
                           "option_19\n", "attend.v1\n", "150 G\n"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
  EXPECT_THAT(run.output, testing::Not(testing::ContainsRegex("[^\n]{81}")));
}

TEST(ServerInfoCommand, GivesEveryFieldAsJson) {
  FakeServer server([](const FakeCall&) { return AnswerWith(Server()); });
  const CommandLineRun run = RunCommandLine(AddServerInfoCommand, {"info", "--json", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const auto json = nlohmann::json::parse(run.output);
  const google::protobuf::Descriptor& fields = *attend::v1::GetServerInfoResponse::descriptor();
  for (int i = 0; i < fields.field_count(); ++i)
    EXPECT_TRUE(json.contains(fields.field(i)->name())) << fields.field(i)->name();
  EXPECT_EQ(static_cast<int>(json.size()), fields.field_count());
  EXPECT_EQ(json["max_message_bytes"], 268435456);
  EXPECT_EQ(json["native_types"], nlohmann::json({"DATA_TYPE_FLOAT32", "DATA_TYPE_BFLOAT16"}));
  EXPECT_EQ(json["multiply_adds_per_second"], 1.5e11);
}

}  // namespace
}  // namespace attend::client
