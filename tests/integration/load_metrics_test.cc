// What /metrics says after a load that is known, to the unit: calls, sizes, lengths, times, refusals, cancellations.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "attend/v1/attention.pb.h"
#include "client/attend_client.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/server_calls.h"
#include "tests/testing/http2_sender.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::Each;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kHeadDim = 32;
constexpr int64_t kValueDim = 24;
constexpr double kClockUnit = 1e-9;  // of the times that the server tells its callers

constexpr auto kIsZero = [](double value) { return value == 0; };
constexpr auto kIsOne = [](double value) { return value == 1; };

std::string MetricsOf(const ServerProcess& server) { return server.Get("/metrics").value_or(HttpAnswer{}).body; }

// Once the server has counted all calls, which it does before they leave.
std::string MetricsAtRest(const ServerProcess& server) {
  const absl::Status status = server.WaitForMetric("attend_in_flight_requests", kIsZero);
  EXPECT_TRUE(status.ok()) << status;
  return MetricsOf(server);
}

double ValueIn(const std::string& metrics, const std::string& sample) {
  const absl::StatusOr<double> value = FindMetric(metrics, sample);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(-1);
}

// The sum of all samples of one name, whatever their labels.
double TotalIn(const std::string& metrics, absl::string_view name) {
  double total = 0;
  for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
    double value = 0;
    if (absl::StartsWith(line, absl::StrCat(name, "{")) && absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      total += value;
    }
  }
  return total;
}

// Every bucket, the number and the sum of a histogram that has seen `values`, each of them known to `precision`.
void ExpectHistogram(const std::string& metrics, const std::string& name, const std::vector<double>& values,
                     double precision = 0) {
  SCOPED_TRACE(name);
  double sum = 0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  EXPECT_EQ(ValueIn(metrics, name + "_count"), count);
  EXPECT_NEAR(ValueIn(metrics, name + "_sum"), sum, count * precision);
  const std::string bucket = name + "_bucket{le=\"";
  int buckets = 0;
  for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
    if (!absl::StartsWith(line, bucket)) continue;
    ++buckets;
    const absl::string_view rest = line.substr(bucket.size());
    double bound = 0;
    ASSERT_TRUE(absl::SimpleAtod(rest.substr(0, rest.find('"')), &bound)) << line;
    const auto fits = std::count_if(values.begin(), values.end(), [bound](double value) { return value <= bound; });
    EXPECT_EQ(absl::StrCat(rest.substr(rest.find(' ') + 1)), absl::StrCat(fits)) << line;
  }
  EXPECT_GE(buckets, 10);
}

// A problem of two heads on one, with these lengths.
class Problem {
 public:
  Problem(int64_t query_length, int64_t key_length)
      : query_(2 * query_length * kHeadDim, 0.5F),
        key_(key_length * kHeadDim, 0.25F),
        value_(key_length * kValueDim, 1.0F) {
    request.query = client::FloatTensorView({1, 2, query_length, kHeadDim}, query_);
    request.key = client::FloatTensorView({1, 1, key_length, kHeadDim}, key_);
    request.value = client::FloatTensorView({1, 1, key_length, kValueDim}, value_);
  }
  client::AttendRequest request;

 private:
  std::vector<float> query_;
  std::vector<float> key_;
  std::vector<float> value_;
};

// One call of a method that may not be there, with these bytes as its message.
grpc::Status CallMethod(const ServerProcess& server, const std::string& method, const std::string& bytes,
                        const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
  grpc::GenericStub stub(grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

// What the callers of a load saw, as the histograms count it.
struct Seen {
  std::vector<double> receive;
  std::vector<double> queue;
  std::vector<double> compute;
  std::vector<double> request_bytes;
  std::vector<double> response_bytes;
  std::vector<double> query_lengths;
  std::vector<double> key_lengths;
  double multiply_adds = 0;

  void Add(const client::AttendResult& result, int64_t query_length, int64_t key_length) {
    receive.push_back(absl::ToDoubleSeconds(result.server.receive));
    queue.push_back(absl::ToDoubleSeconds(result.server.queue));
    compute.push_back(absl::ToDoubleSeconds(result.server.pack + result.server.compute));
    request_bytes.push_back(static_cast<double>(result.request_bytes));
    response_bytes.push_back(static_cast<double>(result.response_bytes));
    query_lengths.push_back(static_cast<double>(query_length));
    key_lengths.push_back(static_cast<double>(key_length));
    // Two heads, a product with the keys and one with the values.
    multiply_adds += static_cast<double>(2 * query_length * key_length * (kHeadDim + kValueDim));
  }
};

TEST(LoadMetricsTest, AnsweredCallsShowTheirSizesLengthsAndTimes) {
  const auto server = StartServer({"--compute_threads=2"});
  ASSERT_NE(server, nullptr);
  const auto client = Connect(*server);
  Seen seen;
  int calls = 0;
  for (const auto& [query_length, key_length] : {std::pair{1, 1}, {16, 16}, {16, 16}, {17, 4096}, {300, 7}, {300, 7}}) {
    const auto result = client->Attend(Problem(query_length, key_length).request);
    ASSERT_TRUE(result.ok()) << result.status();
    seen.Add(*result, query_length, key_length);
    ++calls;
  }
  const std::string metrics = MetricsAtRest(*server);
  ExpectHistogram(metrics, "attend_receive_duration_seconds", seen.receive, kClockUnit);
  ExpectHistogram(metrics, "attend_queue_duration_seconds", seen.queue, kClockUnit);
  ExpectHistogram(metrics, "attend_compute_duration_seconds", seen.compute, 2 * kClockUnit);
  ExpectHistogram(metrics, "attend_request_bytes", seen.request_bytes);
  ExpectHistogram(metrics, "attend_response_bytes", seen.response_bytes);
  ExpectHistogram(metrics, "attend_query_length", seen.query_lengths);
  ExpectHistogram(metrics, "attend_key_length", seen.key_lengths);
  ExpectHistogram(metrics, "attend_refusal_duration_seconds", {});
  EXPECT_EQ(ValueIn(metrics, "attend_multiply_adds_total"), seen.multiply_adds);
  EXPECT_EQ(ValueIn(metrics, R"(attend_requests_total{method="Attend",code="OK"})"), calls);
  EXPECT_EQ(ValueIn(metrics, "attend_request_duration_seconds_count"), calls);
  double parts = 0;
  for (const auto* times : {&seen.receive, &seen.queue, &seen.compute}) {
    for (const double seconds : *times) parts += seconds;
  }
  EXPECT_GE(ValueIn(metrics, "attend_request_duration_seconds_sum"), parts - 3 * calls * kClockUnit);
  EXPECT_GT(ValueIn(metrics, "attend_compute_busy_seconds_total"), 0);
  EXPECT_EQ(ValueIn(metrics, "attend_connections"), 1);
  EXPECT_EQ(ValueIn(metrics, "attend_log_lines_dropped_total"), 0);
  for (const char* name : {"attend_queued_requests", "attend_receiving_bytes", "attend_memory_reserved_bytes",
                           "attend_oldest_job_age_seconds"}) {
    EXPECT_EQ(ValueIn(metrics, name), 0) << name;
  }
  EXPECT_EQ(TotalIn(metrics, "attend_rejected_total") + TotalIn(metrics, "attend_cancelled_total"), 0);
  EXPECT_EQ(server->Stop(), 0);
}

TEST(LoadMetricsTest, CallsOfEveryMethodAreCountedByHowTheyEnd) {
  const auto server = StartServer({"--memory_budget=64MiB"});
  ASSERT_NE(server, nullptr);
  const auto client = Connect(*server);
  EXPECT_TRUE(client->Attend(Problem(2, 3).request).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(client->GetServerInfo().ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->CheckHealth().ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client->CheckHealth("nobody").value(), client::Health::kServiceUnknown);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(CallMethod(*server, absl::StrCat("/attend.v1.AttentionService/Nothing", i), "").error_code(),
              grpc::UNIMPLEMENTED);
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(CallMethod(*server, "/attend.v1.AttentionService/Attend", "no message").error_code(),
              grpc::INVALID_ARGUMENT);
  }
  {
    grpc::ClientContext context;
    HealthCheckResponse state;
    const auto watch = Health::NewStub(grpc::CreateChannel(server->grpc_address(), grpc::InsecureChannelCredentials()))
                           ->Watch(&context, HealthCheckRequest());
    ASSERT_TRUE(watch->Read(&state));
    context.TryCancel();
    EXPECT_FALSE(watch->Finish().ok());
  }
  EXPECT_TRUE(server->WaitForMetric(R"(attend_requests_total{method="Watch",code="CANCELLED"})", kIsOne).ok());
  const std::string metrics = MetricsAtRest(*server);
  for (const auto& [labels, calls] : {std::pair{R"(method="Attend",code="OK")", 1},
                                      {R"(method="GetServerInfo",code="OK")", 2},
                                      {R"(method="Check",code="OK")", 3},
                                      {R"(method="Check",code="NOT_FOUND")", 4},
                                      {R"(method="other",code="UNIMPLEMENTED")", 5},
                                      {R"(method="Attend",code="INVALID_ARGUMENT")", 6}}) {
    EXPECT_EQ(ValueIn(metrics, absl::StrCat("attend_requests_total{", labels, "}")), calls);
  }
  EXPECT_EQ(TotalIn(metrics, "attend_requests_total"), 1 + 1 + 2 + 3 + 4 + 5 + 6);
  EXPECT_EQ(ValueIn(metrics, "attend_request_duration_seconds_count"), 7) << "Attend calls alone";
  EXPECT_EQ(ValueIn(metrics, "attend_request_bytes_count"), 1) << "those that were computed";
  EXPECT_EQ(ValueIn(metrics, "attend_memory_budget_bytes"), 64 * kMiB);
  const auto info = client->GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(
      ValueIn(metrics, absl::StrCat("attend_build_info{version=\"", info->version(), "\",onednn_version=\"",
                                    info->onednn_version(), "\",instruction_set=\"", info->instruction_set(), "\"}")),
      1);
}

// A call of which so much is announced, and nothing sent.
std::unique_ptr<Http2Sender> Announce(const ServerProcess& server, int64_t bytes) {
  auto call = Http2Sender::Call(
      server.grpc_address(), {{"attend-message-bytes", absl::StrCat(bytes)}, {"authorization", "Bearer alices-token"}});
  EXPECT_TRUE(call.ok()) << call.status();
  return *std::move(call);
}

TEST(LoadMetricsTest, RefusalsAreCountedByReasonAndTimed) {
  const auto folder = TemporaryFolder::Create();
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::ofstream((*folder)->File("tokens")) << "alice:alices-token\n";
  std::ofstream((*folder)->File("token")) << "alices-token\n";
  const auto server =
      StartServer({"--memory_budget=64MiB", "--receive_budget=1MiB", "--max_message_bytes=1MiB",
                   "--max_queued_requests=1", absl::StrCat("--token_file=", (*folder)->File("tokens"))});
  ASSERT_NE(server, nullptr);
  const auto stranger = Connect(*server);
  const auto client = Connect(*server, {.token_file = (*folder)->File("token")});
  constexpr client::CallOptions kOnce{.retry = false};

  EXPECT_EQ(stranger->Attend(Problem(1, 1).request, kOnce).status().code(), absl::StatusCode::kUnauthenticated);
  for (int i = 0; i < 2; ++i) {  // at the headers
    EXPECT_TRUE(Announce(*server, kMiB + 1)->WaitForEnd(absl::Seconds(60)).ok());
  }
  EXPECT_EQ(CallMethod(*server, "/attend.v1.AttentionService/Attend", std::string(kMiB + 1, 'x'),
                       {{"authorization", "Bearer alices-token"}})
                .error_code(),
            grpc::RESOURCE_EXHAUSTED);  // at the last byte
  Problem weights(600, 600);
  weights.request.results.set_weights(true);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(client->Attend(weights.request, kOnce).ok());
  {
    const auto late =
        Http2Sender::Call(server->grpc_address(), {{"grpc-timeout", "0n"}, {"authorization", "Bearer alices-token"}});
    ASSERT_TRUE(late.ok()) << late.status();
    EXPECT_TRUE((*late)->WaitForEnd(absl::Seconds(60)).ok());
  }
  {
    const auto holder = Announce(*server, kMiB);
    ASSERT_TRUE(server->WaitForMetric("attend_receiving_bytes", [](double value) { return value == kMiB; }).ok());
    const auto waiting = Announce(*server, kMiB);
    ASSERT_TRUE(server->WaitForMetric("attend_queued_requests", kIsOne).ok());
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(client->Attend(Problem(1, 1).request, kOnce).status().code(), absl::StatusCode::kResourceExhausted);
    }
  }
  const std::string metrics = MetricsAtRest(*server);
  for (const auto& [reason, refusals] : {std::pair{"unauthenticated", 1},
                                         {"message_too_large", 3},
                                         {"never_admissible", 4},
                                         {"deadline", 1},
                                         {"queue_full", 5},
                                         {"draining", 0},
                                         {"receive_timeout", 0}}) {
    EXPECT_EQ(ValueIn(metrics, absl::StrCat("attend_rejected_total{reason=\"", reason, "\"}")), refusals) << reason;
  }
  EXPECT_EQ(ValueIn(metrics, "attend_refusal_duration_seconds_count"), 14);
  EXPECT_EQ(ValueIn(metrics, R"(attend_cancelled_total{stage="receiving"})"), 2) << "who held and who waited";
  EXPECT_EQ(TotalIn(metrics, "attend_cancelled_total"), 2);
  EXPECT_EQ(ValueIn(metrics, "attend_request_bytes_count"), 0) << "nothing was computed";
  EXPECT_EQ(ValueIn(metrics, "attend_multiply_adds_total"), 0);
  EXPECT_EQ(server->Stop(), 0);
}

TEST(LoadMetricsTest, MessagesThatDoNotArriveInTimeAreCounted) {
  const auto server = StartServer({"--receive_timeout=0"});
  ASSERT_NE(server, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Announce(*server, 1000)->WaitForEnd(absl::Seconds(60)).ok());
  const std::string metrics = MetricsAtRest(*server);
  EXPECT_EQ(ValueIn(metrics, R"(attend_rejected_total{reason="receive_timeout"})"), 3);
  EXPECT_EQ(ValueIn(metrics, R"(attend_requests_total{method="Attend",code="DEADLINE_EXCEEDED"})"), 3);
  EXPECT_EQ(ValueIn(metrics, "attend_refusal_duration_seconds_count"), 0) << "it took as long as was set";
}

TEST(LoadMetricsTest, CallsThatComeTooLateToADrainAreCounted) {
  const auto server = StartServer({"--drain_timeout=60s"});
  ASSERT_NE(server, nullptr);
  const auto client = Connect(*server);
  ASSERT_TRUE(client->Attend(Problem(1, 1).request).ok());
  auto holder = Announce(*server, 1000);
  ASSERT_TRUE(server->WaitForMetric("attend_in_flight_requests", kIsOne).ok());
  server->process().Signal(SIGTERM);
  int refused = 0;
  int answered = 1;
  while (refused < 3) {
    const absl::Status status = client->Attend(Problem(1, 1).request, {.retry = false}).status();
    if (status.ok()) ++answered;
    if (absl::IsUnavailable(status)) ++refused;
  }
  EXPECT_TRUE(
      server
          ->WaitForMetric(R"(attend_rejected_total{reason="draining"})", [=](double value) { return value == refused; })
          .ok());
  const std::string metrics = MetricsOf(*server);
  EXPECT_EQ(ValueIn(metrics, R"(attend_requests_total{method="Attend",code="OK"})"), answered);
  EXPECT_EQ(ValueIn(metrics, "attend_refusal_duration_seconds_count"), refused);
  holder.reset();
  const auto exit = server->process().Wait(absl::Seconds(60));
  EXPECT_TRUE(exit.ok() && exit->code == 0);
}

TEST(LoadMetricsTest, CancelledCallsAreCountedByWhatTheyWaitedFor) {
  // Room for one of the large ones, and for little else.
  const auto server = StartServer(
      {"--memory_budget=80MiB", "--receive_budget=64MiB", "--max_message_bytes=32MiB", "--compute_threads=1"});
  ASSERT_NE(server, nullptr);
  const auto client = Connect(*server);
  const SquareProblem large(32768);
  std::vector<std::future<absl::StatusCode>> ends;
  const auto send = [&] {
    auto end = std::make_shared<std::promise<absl::StatusCode>>();
    ends.push_back(end->get_future());
    return client->AttendAsync(large.request, {.timeout = absl::InfiniteDuration()},
                               [end](const auto& result) { end->set_value(result.status().code()); });
  };
  const client::PendingCall running = send();
  ASSERT_TRUE(server->WaitForMetric("attend_oldest_job_age_seconds", [](double age) { return age > 0; }).ok());
  const double reserved = server->Metric("attend_memory_reserved_bytes").value_or(0);
  EXPECT_GT(reserved, 32 * kMiB) << "what comes in and goes out";
  EXPECT_LE(reserved, 80 * kMiB);
  const client::PendingCall waiting = send();
  ASSERT_TRUE(server->WaitForMetric("attend_queued_requests", kIsOne).ok());
  EXPECT_EQ(server->Metric("attend_in_flight_requests").value_or(0), 2);
  EXPECT_EQ(server->Metric("attend_memory_reserved_bytes").value_or(0), reserved) << "it has none yet";
  waiting.Cancel();
  EXPECT_TRUE(server->WaitForMetric(R"(attend_cancelled_total{stage="queued"})", kIsOne).ok());
  running.Cancel();
  EXPECT_TRUE(server->WaitForMetric(R"(attend_cancelled_total{stage="computing"})", kIsOne).ok());
  {
    const auto silent = Announce(*server, kMiB);
    ASSERT_TRUE(server->WaitForMetric("attend_receiving_bytes", [](double value) { return value == kMiB; }).ok());
  }
  EXPECT_TRUE(server->WaitForMetric(R"(attend_cancelled_total{stage="receiving"})", kIsOne).ok());
  {
    // Its answer is more than what it lets the server send.
    attend::v1::AttendRequest request;
    for (attend::v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(), request.mutable_value()}) {
      tensor->set_data_type(attend::v1::DATA_TYPE_FLOAT32);
      for (const int64_t dim : {1, 64, 256, 16}) tensor->add_shape(dim);
      tensor->set_data(std::string(int64_t{64} * 256 * 16 * 4, '\0'));
    }
    const auto deaf = Http2Sender::Call(server->grpc_address(), {});
    ASSERT_TRUE(deaf.ok()) << deaf.status();
    (*deaf)->SendWhole(request.SerializeAsString(), absl::Seconds(60));
    ASSERT_TRUE(server->WaitForMetric("attend_response_bytes_count", kIsOne).ok());
  }
  EXPECT_TRUE(server->WaitForMetric(R"(attend_cancelled_total{stage="sending"})", kIsOne).ok());
  const std::string metrics = MetricsAtRest(*server);
  EXPECT_EQ(TotalIn(metrics, "attend_cancelled_total"), 4);
  EXPECT_EQ(TotalIn(metrics, "attend_rejected_total"), 0);
  EXPECT_EQ(ValueIn(metrics, "attend_request_duration_seconds_count"), 4);
  for (const char* name : {"attend_memory_reserved_bytes", "attend_receiving_bytes", "attend_queued_requests"}) {
    EXPECT_EQ(ValueIn(metrics, name), 0) << name;
  }
  for (auto& end : ends) EXPECT_EQ(end.get(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server->Stop(), 0);
}

// The series of a text: names and labels, without values.
std::set<std::string> SeriesIn(const std::string& metrics) {
  std::set<std::string> series;
  for (const absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    if (line[0] != '#') series.emplace(line.substr(0, line.rfind(' ')));
  }
  return series;
}

TEST(LoadMetricsTest, NoCallerAddsALabel) {
  const auto server = StartServer({});
  ASSERT_NE(server, nullptr);
  // All that a stranger may choose: method, service, metadata, request id, contents, path.
  const auto say = [&](const std::string& word) {
    CallMethod(*server, absl::StrCat("/", word, "/", word), word);
    CallMethod(*server, absl::StrCat("/attend.v1.AttentionService/", word), word, {{word, word}});
    CallMethod(*server, "/attend.v1.AttentionService/Attend", word, {{"traceparent", word}, {"authorization", word}});
    CallMethod(*server, "/attend.v1.AttentionService/Attend", "", {{"attend-message-bytes", word}});
    const auto client = Connect(*server);
    Problem problem(1, 1);
    problem.request.request_id = word;
    EXPECT_TRUE(client->Attend(problem.request).ok());
    EXPECT_TRUE(client->CheckHealth(word).ok());
    EXPECT_TRUE(client->GetServerInfo().ok());
    EXPECT_EQ(server->Get(absl::StrCat("/", word))->status, 404);
    return SeriesIn(MetricsAtRest(*server));
  };
  const std::set<std::string> first = say("first");
  EXPECT_GT(first.size(), 100U);
  EXPECT_THAT(first, Each(::testing::Not(::testing::HasSubstr("first"))));
  for (const char* word : {"second", "third", "fourth"}) EXPECT_EQ(say(word), first) << word;
}

}  // namespace
}  // namespace attend::testing
