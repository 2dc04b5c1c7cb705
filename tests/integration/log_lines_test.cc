// What the real server logs: every line whole in either format, whoever wrote it; and that no reader of the log, slow
// or absent, keeps a call waiting.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "attend/v1/attention.grpc.pb.h"
#include "client/attend_client.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/server_calls.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr char kTrace[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr double kQueuedLines = 8192;  // of a log that nobody reads

std::vector<std::string> LinesOf(ServerProcess& server) {
  return absl::StrSplit(server.process().StandardError(), '\n', absl::SkipEmpty());
}

// One call whose caller says what it is traced by.
void AttendTraced(const ServerProcess& server, const std::string& trace) {
  const auto stub = attend::v1::AttentionService::NewStub(
      grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.AddMetadata("traceparent", trace);
  attend::v1::AttendRequest request;
  for (attend::v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(), request.mutable_value()}) {
    tensor->set_data_type(attend::v1::DATA_TYPE_FLOAT32);
    for (const int64_t dim : {1, 1, 3, 4}) tensor->add_shape(dim);
    tensor->set_data(std::string(size_t{3} * 4 * 4, '\0'));
  }
  attend::v1::AttendResponse response;
  const grpc::Status status = stub->Attend(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(LogLinesTest, TextHasALineForEachCallWithItsTrace) {
  const auto server = StartServer({});
  ASSERT_NE(server, nullptr);
  AttendTraced(*server, kTrace);
  AttendTraced(*server, "a \"quoted\" code=OK");
  EXPECT_EQ(server->Stop(), 0);
  for (const std::string& line : LinesOf(*server)) {
    EXPECT_THAT(line, ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z (info|warning|error) [a-z]"));
  }
  EXPECT_THAT(
      server->process().StandardError(),
      AllOf(ContainsRegex(absl::StrCat(
                "info request id=[0-9a-f]{16} method=Attend peer=ipv4:127.0.0.1:[0-9]+ code=OK type=f32 batch=1 "
                "query_heads=1 kv_heads=1 query_length=3 key_length=3 head_dim=4 value_dim=4 "
                "request_bytes=[0-9]+ response_bytes=[0-9]+ receive_ms=[0-9.e-]+ queue_ms=[0-9.e-]+ "
                "pack_ms=[0-9.e-]+ compute_ms=[0-9.e-]+ total_ms=[0-9.e-]+ traceparent=",
                kTrace, "\n")),
            HasSubstr(R"(traceparent="a \"quoted\" code=OK")")));
}

// gRPC's own lines among them: it is made to talk.
TEST(LogLinesTest, JsonIsAnObjectInEveryLineAlsoOfGrpc) {
  auto server =
      ServerProcess::Start({.flags = {"--log_format=json"}, .environment = {"GRPC_VERBOSITY=INFO", "GRPC_TRACE=http"}});
  ASSERT_TRUE(server.ok()) << server.status();
  AttendTraced(**server, kTrace);
  EXPECT_EQ((*server)->Stop(), 0);
  int requests = 0;
  int of_grpc = 0;
  for (const std::string& line : LinesOf(**server)) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const char* field : {"time", "level", "message"}) EXPECT_TRUE(json.contains(field)) << line;
    if (json["message"] == "grpc") {
      ++of_grpc;
      EXPECT_TRUE(json.contains("text")) << line;
    }
    if (json["message"] != "request") continue;
    ++requests;
    EXPECT_EQ(json["method"], "Attend");
    EXPECT_EQ(json["code"], "OK");
    EXPECT_EQ(json["key_length"], 3);
    EXPECT_EQ(json["traceparent"], kTrace);
    EXPECT_TRUE(json["compute_ms"].is_number());
  }
  EXPECT_EQ(requests, 1);
  EXPECT_GT(of_grpc, 0);
}

TEST(LogLinesTest, BeyondTheRateCallsAreCountedAndTheNextLineSaysHowMany) {
  const auto server = StartServer({"--log_format=json", "--log_requests_per_second=2"});
  ASSERT_NE(server, nullptr);
  const auto client = Connect(*server);
  const SquareProblem problem(1);
  // Calls are made until a later second has come and its line has counted those before.
  int calls = 0;
  do {
    ASSERT_TRUE(client->Attend(problem.request).ok());
    ++calls;
  } while (!absl::StrContains(server->process().StandardError(), "skipped"));
  EXPECT_EQ(server->Stop(), 0);
  int64_t logged = 0;
  int64_t skipped = 0;
  for (const std::string& line : LinesOf(*server)) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json["message"] != "request") continue;
    ++logged;
    skipped += json.value("skipped", 0);
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LE(logged + skipped, calls) << "those after the last line are told by none";
  EXPECT_GE(logged, 3);
}

// A pipe that is full before the server starts, and that nobody ever reads.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string page(4096, 'x');
    while (write(ends_[1], page.data(), page.size()) > 0) {
    }
    fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    for (const int end : ends_) close(end);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  int write_end() const { return ends_[1]; }

 private:
  int ends_[2] = {-1, -1};
};

// So many calls, some at a time; waits for all of them. How many were answered.
int AttendManyTimes(client::Client& client, int calls) {
  constexpr int kAtATime = 32;
  const SquareProblem problem(1, 8);
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  int ended = 0;
  int answered = 0;
  std::unique_lock<std::mutex> lock(mutex);
  while (ended < calls) {
    if (begun < calls && begun - ended < kAtATime) {
      ++begun;
      lock.unlock();
      client.AttendAsync(problem.request, {}, [&](const auto& result) {
        const std::lock_guard<std::mutex> counting(mutex);
        ++ended;
        answered += result.ok() ? 1 : 0;
        changed.notify_one();
      });
      lock.lock();
    } else {
      changed.wait(lock, [&] { return ended == calls || (begun < calls && begun - ended < kAtATime); });
    }
  }
  return answered;
}

TEST(LogLinesTest, ALogThatNobodyReadsKeepsNoCallWaiting) {
  constexpr int kCalls = 9000;
  const FullPipe nobody;
  auto server =
      ServerProcess::Start({.flags = {"--log_requests_per_second=1000000"}, .standard_error = nobody.write_end()});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = Connect(**server);
  EXPECT_EQ(AttendManyTimes(*client, kCalls), kCalls);
  EXPECT_TRUE(client->CheckHealth().ok());
  EXPECT_EQ((*server)->Get("/readyz").value_or(HttpAnswer{}).status, 200);
  ASSERT_TRUE((*server)->WaitForMetric("attend_in_flight_requests", [](double value) { return value == 0; }).ok());
  // What is neither queued nor in the hand of the thread that writes, a few lines from the start among it.
  const double dropped = (*server)->Metric("attend_log_lines_dropped_total").value_or(-1);
  EXPECT_GE(dropped, kCalls - kQueuedLines - 1);
  EXPECT_LE(dropped, kCalls - kQueuedLines + 10);
  EXPECT_EQ((*server)->Stop(), 0);
}

}  // namespace
}  // namespace attend::testing
