// A whole server inside the test's own process, so that sanitizers see both ends, and calls as no client library would
// make them. Ordinary calls are the business of tests/integration.
#include "server/server.h"

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "attend/v1/attention.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "server/command_line.h"
#include "server/log.h"
#include "server/raw_call.h"

namespace attend::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAttend[] = "/attend.v1.AttentionService/Attend";

void SetTensor(v1::Tensor& tensor, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t length : shape) {
    tensor.add_shape(length);
    elements *= length;
  }
  tensor.set_data_type(v1::DATA_TYPE_FLOAT32);
  tensor.mutable_data()->resize(static_cast<size_t>(elements) * sizeof(float));
}

// Zeros: every output is 0.
v1::AttendRequest Request(int64_t length, int64_t heads = 1) {
  v1::AttendRequest request;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(), request.mutable_value()}) {
    SetTensor(*tensor, {1, heads, length, 64});
  }
  return request;
}

// Some seconds of work.
v1::AttendRequest LongRequest() { return Request(8192, 8); }

class ServerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_TRUE(AwaitNothingHeld()) << Metrics();
    server_.reset();
  }

  void StartServer(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0"});
    const absl::StatusOr<CommandLine> command_line = ParseCommandLine(
        flags, [](const std::string&) { return std::nullopt; }, {.cpus = 2, .memory_bytes = int64_t{2} << 30});
    ASSERT_TRUE(command_line.ok()) << command_line.status();
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(command_line->settings, log_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
    stub_ = v1::AttentionService::NewStub(channel_);
  }

  grpc::Status Attend(const v1::AttendRequest& request) {
    grpc::ClientContext context;
    v1::AttendResponse response;
    return stub_->Attend(&context, request, &response);
  }

  HealthCheckResponse::ServingStatus CheckHealth() {
    grpc::ClientContext context;
    HealthCheckResponse response;
    EXPECT_TRUE(Health::NewStub(channel_)->Check(&context, HealthCheckRequest(), &response).ok());
    return response.status();
  }

  std::string Metrics() { return httplib::Client("http://" + server_->http_address()).Get("/metrics")->body; }

  // `absent` is what a sample counts that is not there; without it, it must be there.
  double Metric(const std::string& sample, std::optional<double> absent = std::nullopt) {
    const std::string metrics = Metrics();
    for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, ' ');
      double value = 0;
      if (parts.first == sample && absl::SimpleAtod(parts.second, &value)) return value;
    }
    EXPECT_TRUE(absent) << "no metric " << sample;
    return absent.value_or(-1);
  }

  // Waits for `condition` for a generous time.
  template <typename Condition>
  bool Await(Condition condition) {
    for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end;) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  // Every byte and every count comes back to exactly 0.
  bool AwaitNothingHeld() {
    return Await([this] {
      return Metric("attend_in_flight_requests") == 0 && Metric("attend_memory_reserved_bytes") == 0 &&
             Metric("attend_receiving_bytes") == 0 && Metric("attend_queued_requests") == 0;
    });
  }

  Log log_{LogFormat::kText, LogLevel::kError};
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

TEST_F(ServerTest, ACallWithoutAMessageIsMalformed) {
  StartServer();
  RawCall call(channel_, kAttend);
  call.Start();
  call.HalfClose();
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_details(), HasSubstr("MALFORMED_MESSAGE"));
  EXPECT_THAT(call.Trailer("attend-request-id"), Not(""));
  EXPECT_TRUE(Attend(Request(16)).ok());
}

TEST_F(ServerTest, AnswersTheFirstMessageWhateverFollows) {
  StartServer();
  const std::string message = Request(16).SerializeAsString();
  RawCall one(channel_, kAttend);
  one.Start();
  one.Write(message);
  EXPECT_TRUE(one.Await().ok()) << "without waiting for the end of the client's side";
  EXPECT_TRUE(one.has_response());
  RawCall two(channel_, kAttend);
  two.Start();
  two.Write(message);
  two.AwaitWritten();
  two.Write(message);
  two.AwaitWritten();
  two.HalfClose();
  EXPECT_TRUE(two.Await().ok());
  EXPECT_TRUE(two.has_response());
}

TEST_F(ServerTest, AMessageIsNoLongerThanAnnounced) {
  StartServer();
  const std::string message = Request(16).SerializeAsString();
  for (const int64_t difference : {-1, 0, 1}) {
    RawCall call(channel_, kAttend);
    call.context().AddMetadata("attend-message-bytes", absl::StrCat(static_cast<int64_t>(message.size()) + difference));
    call.Start();
    call.Write(message);
    call.HalfClose();
    const grpc::Status status = call.Await();
    EXPECT_EQ(status.error_code(), difference < 0 ? grpc::INVALID_ARGUMENT : grpc::OK) << difference;
    if (difference < 0) {
      EXPECT_THAT(status.error_details(), HasSubstr("MALFORMED_MESSAGE"));
    }
  }
}

TEST_F(ServerTest, AnAnnouncementMustBeANumberWithinTheLimit) {
  StartServer({"--max_message_bytes=1MiB"});
  const std::pair<std::string, grpc::StatusCode> cases[] = {
      {"x", grpc::INVALID_ARGUMENT},        {"-1", grpc::INVALID_ARGUMENT},
      {"", grpc::INVALID_ARGUMENT},         {"+5", grpc::INVALID_ARGUMENT},
      {"5 5", grpc::INVALID_ARGUMENT},      {"99999999999999999999", grpc::INVALID_ARGUMENT},
      {"1048577", grpc::RESOURCE_EXHAUSTED}};
  for (const auto& [announced, code] : cases) {
    RawCall call(channel_, kAttend);
    call.context().AddMetadata("attend-message-bytes", announced);
    call.Start();  // and sends nothing: the headers decide
    const grpc::Status status = call.Await();
    EXPECT_EQ(status.error_code(), code) << announced;
    EXPECT_THAT(call.Trailer("attend-request-id"), Not(""));
    EXPECT_EQ(call.Trailer("grpc-retry-pushback-ms"), "") << "trying again is of no use";
  }
  EXPECT_EQ(Metric("attend_rejected_total{reason=\"message_too_large\"}"), 1);
}

TEST_F(ServerTest, AMessageThatDoesNotArriveIsGivenUp) {
  StartServer({"--receive_timeout=50ms"});
  RawCall call(channel_, kAttend);
  call.Start();
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("receive_timeout"));
  EXPECT_EQ(Metric("attend_rejected_total{reason=\"receive_timeout\"}"), 1);
}

TEST_F(ServerTest, NamesTheMethodThatIsNotOffered) {
  StartServer();
  RawCall call(channel_, "/attend.v1.AttentionService/AttendStream");
  call.Start();
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("/attend.v1.AttentionService/AttendStream"));
}

TEST_F(ServerTest, EchoesTheRequestIdOrMakesOne) {
  StartServer();
  for (const std::string id : {"", "mine-1"}) {
    v1::AttendRequest request = Request(16);
    request.set_request_id(id);
    grpc::ClientContext context;
    v1::AttendResponse response;
    ASSERT_TRUE(stub_->Attend(&context, request, &response).ok());
    EXPECT_EQ(response.request_id().size(), id.empty() ? 16 : id.size());
    if (!id.empty()) {
      EXPECT_EQ(response.request_id(), id);
    }
    const auto trailer = context.GetServerTrailingMetadata().find("attend-request-id");
    ASSERT_NE(trailer, context.GetServerTrailingMetadata().end());
    EXPECT_EQ(std::string(trailer->second.data(), trailer->second.size()), response.request_id());
  }
}

TEST_F(ServerTest, CancelledWorkStopsAndGivesEverythingBack) {
  StartServer();
  RawCall call(channel_, kAttend);
  call.Start();
  call.Write(LongRequest().SerializeAsString());
  ASSERT_TRUE(Await([this] { return Metric("attend_oldest_job_age_seconds") > 0; }));
  EXPECT_GT(Metric("attend_memory_reserved_bytes"), 0);
  call.context().TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(AwaitNothingHeld());
  EXPECT_EQ(Metric("attend_cancelled_total{stage=\"computing\"}"), 1);
}

TEST_F(ServerTest, ADeadlineStopsWork) {
  StartServer();
  RawCall call(channel_, kAttend, absl::Milliseconds(700));
  call.Start();
  call.Write(LongRequest().SerializeAsString());
  EXPECT_EQ(call.Await().error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(AwaitNothingHeld());
  // This caller ends its call itself, at the same moment: which of the two is noticed first is chance.
  EXPECT_EQ(Metric("attend_requests_total{code=\"DEADLINE_EXCEEDED\",method=\"Attend\"}", 0) +
                Metric("attend_requests_total{code=\"CANCELLED\",method=\"Attend\"}", 0),
            1);
  EXPECT_EQ(Metric("attend_requests_total{code=\"OK\",method=\"Attend\"}", 0), 0);
}

TEST_F(ServerTest, RefusesWhatCannotBeQueuedAndSaysWhenToComeBack) {
  // Each request takes more than half of the budget, so that one is admitted and one may wait.
  StartServer(
      {"--memory_budget=112MiB", "--receive_budget=96MiB", "--max_message_bytes=64MiB", "--max_queued_requests=1"});
  const std::string message = LongRequest().SerializeAsString();
  std::vector<std::unique_ptr<RawCall>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(std::make_unique<RawCall>(channel_, kAttend));
    calls.back()->Start();
    calls.back()->Write(message);
    ASSERT_TRUE(Await([&] {
      // The first is computing, not just admitted: where it is cancelled is counted below.
      return Metric("attend_queued_requests") == i && Metric("attend_in_flight_requests") == i + 1 &&
             Metric("attend_oldest_job_age_seconds") > 0;
    }));
  }
  RawCall refused(channel_, kAttend);
  refused.Start();
  const grpc::Status status = refused.Await();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  int64_t pushback = 0;
  EXPECT_TRUE(absl::SimpleAtoi(refused.Trailer("grpc-retry-pushback-ms"), &pushback));
  EXPECT_GE(pushback, 40);
  EXPECT_LE(pushback, 12000);
  // The one that waits is cancelled first, then the one that computes.
  for (size_t i = calls.size(); i-- > 0;) {
    calls[i]->context().TryCancel();
    EXPECT_EQ(calls[i]->Await().error_code(), grpc::CANCELLED);
    ASSERT_TRUE(Await([&] { return Metric("attend_in_flight_requests") == static_cast<double>(i); }));
  }
  EXPECT_EQ(Metric("attend_cancelled_total{stage=\"queued\"}"), 1);
}

TEST_F(ServerTest, CallsCancelledAtAnyMomentLeaveNothingBehind) {
  StartServer({"--memory_budget=16MiB", "--max_queued_requests=64"});
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::string message = Request(256, 4).SerializeAsString();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<RawCall>> calls;
    for (int i = 0; i < 16; ++i) {
      calls.push_back(std::make_unique<RawCall>(channel_, kAttend));
      calls.back()->Start();
      if (random() % 4 != 0) calls.back()->Write(message);
      if (random() % 4 != 0) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
    for (const auto& call : calls) call->context().TryCancel();
    for (const auto& call : calls) call->Await();
  }
  EXPECT_TRUE(AwaitNothingHeld());
  EXPECT_TRUE(Attend(Request(16)).ok());
}

TEST_F(ServerTest, HealthKnowsItsServicesAndNoOthers) {
  StartServer();
  const std::unique_ptr<Health::Stub> health = Health::NewStub(channel_);
  const std::pair<std::string, grpc::StatusCode> services[] = {
      {"", grpc::OK}, {"attend.v1.AttentionService", grpc::OK}, {"other", grpc::NOT_FOUND}};
  for (const auto& [name, code] : services) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    EXPECT_EQ(health->Check(&context, request, &response).error_code(), code) << name;
    if (code == grpc::OK) {
      EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
    }
  }
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("other");
  HealthCheckResponse response;
  const auto watch = health->Watch(&context, request);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::CANCELLED);
}

TEST_F(ServerTest, DrainsInOrder) {
  StartServer();
  grpc::ClientContext context;
  HealthCheckResponse state;
  const auto watch = Health::NewStub(channel_)->Watch(&context, HealthCheckRequest());
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::SERVING);
  RawCall in_flight(channel_, kAttend);
  in_flight.Start();
  ASSERT_TRUE(Await([this] { return Metric("attend_in_flight_requests") == 1; }));

  server_->BeginDrain();
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(CheckHealth(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(httplib::Client("http://" + server_->http_address()).Get("/readyz")->status, 503);
  EXPECT_EQ(httplib::Client("http://" + server_->http_address()).Get("/livez")->status, 200);
  EXPECT_TRUE(Attend(Request(16)).ok()) << "calls are still served";
  server_->Housekeep();
  EXPECT_EQ(CheckHealth(), HealthCheckResponse::NOT_SERVING);

  server_->StopAccepting();
  EXPECT_EQ(Attend(Request(16)).error_code(), grpc::UNAVAILABLE);
  grpc::ClientContext description_context;
  v1::GetServerInfoResponse description;
  EXPECT_EQ(stub_->GetServerInfo(&description_context, {}, &description).error_code(), grpc::UNAVAILABLE);
  EXPECT_FALSE(server_->AwaitCalls(absl::ZeroDuration()));
  in_flight.Write(Request(16).SerializeAsString());
  EXPECT_TRUE(in_flight.Await().ok()) << "what was accepted is finished";
  EXPECT_TRUE(server_->AwaitCalls(absl::Seconds(60)));
  server_.reset();
  EXPECT_FALSE(watch->Read(&state));
  EXPECT_FALSE(watch->Finish().ok());
}

TEST_F(ServerTest, EndsWithCallsInFlight) {
  StartServer();
  RawCall computing(channel_, kAttend);
  computing.Start();
  computing.Write(LongRequest().SerializeAsString());
  RawCall receiving(channel_, kAttend);
  receiving.Start();
  ASSERT_TRUE(Await(
      [this] { return Metric("attend_oldest_job_age_seconds") > 0 && Metric("attend_in_flight_requests") == 2; }));
  server_.reset();
  EXPECT_FALSE(computing.Await().ok());
  EXPECT_FALSE(receiving.Await().ok());
}

TEST_F(ServerTest, DescribesItself) {
  StartServer({"--compute_threads=1", "--memory_budget=64MiB"});
  grpc::ClientContext context;
  v1::GetServerInfoResponse description;
  ASSERT_TRUE(stub_->GetServerInfo(&context, {}, &description).ok());
  EXPECT_EQ(description.compute_threads(), 1);
  EXPECT_EQ(description.memory_budget_bytes(), 64 << 20);
  EXPECT_EQ(description.max_message_bytes(), 16 << 20);
  EXPECT_EQ(description.max_head_dim(), 1024);
  EXPECT_GT(description.multiply_adds_per_second(), 0);
  EXPECT_THAT(description.front_ends(), ::testing::ElementsAre("attend.v1"));
  EXPECT_THAT(description.supported_options(), ::testing::Contains("causal"));
}

TEST_F(ServerTest, AServerInfoRequestHasNoFields) {
  StartServer();
  constexpr char kGetServerInfo[] = "/attend.v1.AttentionService/GetServerInfo";
  // Field 99 with the value 1; and a field that ends beyond the message.
  const std::tuple<std::string, grpc::StatusCode, std::string> cases[] = {
      {"\x98\x06\x01", grpc::UNIMPLEMENTED, "UNKNOWN_FIELD"},
      {"\x0a\x7f", grpc::INVALID_ARGUMENT, "MALFORMED_MESSAGE"},
      {"", grpc::OK, ""}};
  for (const auto& [message, code, reason] : cases) {
    RawCall call(channel_, kGetServerInfo);
    call.Start();
    call.Write(message);
    call.HalfClose();
    const grpc::Status status = call.Await();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_details(), HasSubstr(reason));
    if (code == grpc::UNIMPLEMENTED) {
      EXPECT_THAT(status.error_message(), HasSubstr("99"));
    }
  }
  EXPECT_EQ(Metric("attend_requests_total{code=\"INVALID_ARGUMENT\",method=\"GetServerInfo\"}"), 1);
}

TEST_F(ServerTest, APortInUseIsAnErrorThatNamesIt) {
  StartServer();
  const absl::StatusOr<CommandLine> command_line =
      ParseCommandLine({absl::StrCat("--grpc_address=", server_->grpc_address())},
                       [](const std::string&) { return std::nullopt; }, {.cpus = 1, .memory_bytes = int64_t{1} << 30});
  const absl::Status status = Server::Create(command_line->settings, log_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(server_->grpc_address()), HasSubstr("already in use")));
}

}  // namespace
}  // namespace attend::server
