// The client against a server of the test's own, over real connections.
#include "client/attend_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attend/client/v1/health.pb.h"
#include "client/fake_server.h"
#include "client/serialized_details.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Long enough that only a hang exceeds it.
const CallOptions kPatient = {.timeout = absl::Seconds(120)};

std::string Flatten(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

// Answers a call of Attend with its own query as output.
FakeAnswer Echo(const FakeCall& call) {
  attend::v1::AttendRequest request;
  EXPECT_TRUE(request.ParseFromString(Flatten(call.request)));
  attend::v1::AttendResponse response;
  *response.mutable_output() = request.query();
  response.set_request_id(request.request_id().empty() ? "made-by-server" : request.request_id());
  return AnswerWith(response);
}

FakeAnswer Never(const FakeCall& /*call*/) { return {.never = true}; }

std::unique_ptr<Client> Connect(const std::string& target) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Create({.target = target});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

AttendRequest RequestOf(const std::vector<float>& query) {
  AttendRequest request;
  request.query = FloatTensorView({static_cast<int64_t>(query.size())}, query);
  return request;
}

// The smallest request that Echo answers.
AttendRequest Trivial() {
  AttendRequest request;
  request.query.data_type = attend::v1::DATA_TYPE_FLOAT32;
  request.query.shape = {0};
  return request;
}

// Waits for the callback of an asynchronous call.
class Waiter {
 public:
  Client::AttendCallback Callback() {
    return [this](absl::StatusOr<AttendResult> result) {
      const std::lock_guard<std::mutex> lock(mutex_);
      EXPECT_FALSE(result_.has_value()) << "called twice";
      result_ = std::move(result);
      arrived_.notify_all();
    };
  }

  absl::StatusOr<AttendResult> Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [this] { return result_.has_value(); });
    return *result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<absl::StatusOr<AttendResult>> result_;
};

TEST(Client, SendsTensorsAndGivesResults) {
  std::string announced;
  std::string method;
  size_t bytes = 0;
  FakeServer server([&](const FakeCall& call) {
    announced = call.metadata.find("attend-message-bytes")->second;
    method = call.method;
    bytes = call.request.Length();
    return Echo(call);
  });
  const std::vector<float> query = {1, 2, 3};
  AttendRequest request = RequestOf(query);
  request.request_id = "mine";
  const auto result = Connect(server.address())->Attend(request, kPatient);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->output.floats(), ElementsAre(1, 2, 3));
  EXPECT_EQ(result->request_id, "mine");
  EXPECT_EQ(result->attempts, 1);
  EXPECT_EQ(result->request_bytes, static_cast<int64_t>(bytes));
  EXPECT_GT(result->duration, absl::ZeroDuration());
  EXPECT_EQ(method, "/attend.v1.AttentionService/Attend");
  EXPECT_EQ(announced, absl::StrCat(bytes));
}

TEST(Client, CarriesMessagesOf64MiB) {
  FakeServer server(Echo);
  std::vector<float> query(size_t{16} << 20);
  for (size_t i = 0; i < query.size(); ++i) query[i] = static_cast<float>(i % 1000003);
  const auto result = Connect(server.address())->Attend(RequestOf(query), kPatient);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->output.floats().size(), query.size());
  EXPECT_EQ(std::memcmp(result->output.floats().data(), query.data(), query.size() * sizeof(float)), 0);
}

TEST(Client, GivesTheServersErrorWithItsDetails) {
  FakeServer server([](const FakeCall&) -> FakeAnswer {
    return {.status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "query.shape[3] is 0, must be in [1, 1024]",
                                   SerializedViolation("query.shape[3]", "DIM_OUT_OF_RANGE", "0", "[1, 1024]")),
            .trailers = {{"attend-request-id", "r7"}}};
  });
  const absl::Status status = Connect(server.address())->Attend({}, kPatient).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "query.shape[3] is 0, must be in [1, 1024]");
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->field, "query.shape[3]");
  EXPECT_EQ(details->reason, "DIM_OUT_OF_RANGE");
  EXPECT_EQ(details->value, "0");
  EXPECT_EQ(details->limit, "[1, 1024]");
  EXPECT_EQ(details->request_id, "r7");
  EXPECT_EQ(server.calls(), 1);
}

TEST(Client, TriesAgainWhereTheServerIsBusyOrGone) {
  std::atomic<int> calls = 0;
  FakeServer server([&](const FakeCall& call) -> FakeAnswer {
    switch (++calls) {
      case 1:
        return FailWith(grpc::StatusCode::UNAVAILABLE, "draining");
      case 2:
        return {.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"),
                .trailers = {{"grpc-retry-pushback-ms", "3"}}};
      case 3:
        return {.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                                       SerializedRetryDelay(absl::Milliseconds(3)))};
      case 4:
        return FailWith(grpc::StatusCode::CANCELLED, "shut down");
      default:
        return Echo(call);
    }
  });
  const std::vector<float> query = {1, 2, 3};
  const auto result = Connect(server.address())->Attend(RequestOf(query), kPatient);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->output.floats(), ElementsAre(1, 2, 3));
  EXPECT_EQ(result->attempts, 5);
}

TEST(Client, DoesNotRepeatWhatIsTooLarge) {
  FakeServer server([](const FakeCall&) { return FailWith(grpc::StatusCode::RESOURCE_EXHAUSTED, "larger than max"); });
  const absl::Status status = Connect(server.address())->Attend({}, kPatient).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server.calls(), 1);
}

TEST(Client, EndsAtItsDeadline) {
  FakeServer server(Never);
  const auto client = Connect(server.address());
  const absl::Status status = client->Attend({}, {.timeout = absl::Milliseconds(200)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr(server.address() + " within 200ms"));
}

TEST(Client, GivesTheMemoryBackAtADeadlineInTheMiddleOfSending) {
  FakeServer server(Never);
  server.StopReading();
  const auto client = Connect(server.address());
  {
    const std::vector<float> query(size_t{16} << 20, 1);  // freed right after the call: the sanitizers would see a read
    const absl::Status status = client->Attend(RequestOf(query), {.timeout = absl::Milliseconds(200)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(server.calls(), 0);
}

TEST(Client, RefusesATimeoutThatIsNotPositive) {
  const auto client = Connect("127.0.0.1:1");
  EXPECT_TRUE(absl::IsInvalidArgument(client->Attend({}, {.timeout = absl::ZeroDuration()}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client->CheckHealth("", {.timeout = -absl::Seconds(1)}).status()));
}

TEST(Client, RefusesATargetThatIsNone) {
  for (const char* target : {"", "dns://"}) {
    const absl::Status status = Client::Create({.target = target}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << target << ": " << status;
  }
}

TEST(Client, FailsFastWithAddressAndReasonWhereNoServerIs) {
  int port = 0;
  { port = FakeServer(Never).port(); }  // free again
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const absl::Status status = Connect(address)->Attend({}, {.timeout = absl::Seconds(120), .fail_fast = true}).status();
  EXPECT_EQ(status, absl::UnavailableError(absl::StrCat("no server at ", address, ": Connection refused")));
}

TEST(Client, WaitsForAServerThatIsComing) {
  int port = 0;
  { port = FakeServer(Never).port(); }
  const auto client = Connect(absl::StrCat("127.0.0.1:", port));
  Waiter waiter;
  const std::vector<float> query = {1};
  client->AttendAsync(RequestOf(query), kPatient, waiter.Callback());
  FakeServer server(Echo, port);
  ASSERT_EQ(server.port(), port);
  const auto result = waiter.Wait();
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(Client, SpreadsCallsOverTwoServersAndOutlivesOne) {
  FakeServer first(Echo);
  auto second = std::make_unique<FakeServer>(Echo);
  const auto client = Connect(absl::StrCat("ipv4:", first.address(), ",", second->address()));
  const std::vector<float> query = {1};
  // Round-robin begins when the second connection stands, which the calls themselves wait for.
  while (first.calls() == 0 || second->calls() == 0) ASSERT_TRUE(client->Attend(RequestOf(query), kPatient).ok());
  second.reset();
  for (int i = 0; i < 20; ++i) {
    const auto result = client->Attend(RequestOf(query), kPatient);
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

TEST(Client, FindsAServerThatWasRestarted) {
  auto server = std::make_unique<FakeServer>(Echo);
  const int port = server->port();
  const auto client = Connect(server->address());
  ASSERT_TRUE(client->Attend(Trivial(), kPatient).ok());
  server.reset();
  server = std::make_unique<FakeServer>(Echo, port);
  ASSERT_EQ(server->port(), port);
  const auto result = client->Attend(Trivial(), kPatient);
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(Client, CancelEndsACallHereAndThere) {
  std::mutex mutex;
  std::condition_variable arrived;
  bool is_there = false;
  FakeServer server([&](const FakeCall&) -> FakeAnswer {
    const std::lock_guard<std::mutex> lock(mutex);
    is_there = true;
    arrived.notify_all();
    return {.never = true};
  });
  const auto client = Connect(server.address());
  Waiter waiter;
  const PendingCall call = client->AttendAsync({}, kPatient, waiter.Callback());
  {
    std::unique_lock<std::mutex> lock(mutex);
    arrived.wait(lock, [&] { return is_there; });
  }
  call.Cancel();
  EXPECT_EQ(waiter.Wait().status().code(), absl::StatusCode::kCancelled);
  while (server.cancellations() == 0) std::this_thread::yield();
  call.Cancel();  // over: nothing happens
}

TEST(Client, CarriesManyCallsAtOnce) {
  FakeServer server(Echo);
  const auto client = Connect(server.address());
  constexpr int kCalls = 200;
  std::vector<Waiter> waiters(kCalls);
  std::vector<std::vector<float>> queries;
  for (int i = 0; i < kCalls; ++i) queries.push_back({static_cast<float>(i)});
  for (int i = 0; i < kCalls; ++i) client->AttendAsync(RequestOf(queries[i]), kPatient, waiters[i].Callback());
  for (int i = 0; i < kCalls; ++i) {
    const auto result = waiters[i].Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->output.floats(), ElementsAre(static_cast<float>(i)));
  }
}

TEST(Client, ACallbackMayStartTheNextCall) {
  FakeServer server(Echo);
  const auto client = Connect(server.address());
  Waiter last;
  const std::vector<float> query = {1};
  std::function<void(int)> start = [&](int left) {
    client->AttendAsync(RequestOf(query), kPatient, [&, left](absl::StatusOr<AttendResult> result) {
      if (left > 0 && result.ok()) return start(left - 1);
      last.Callback()(std::move(result));
    });
  };
  start(50);
  EXPECT_TRUE(last.Wait().ok());
  EXPECT_EQ(server.calls(), 51);
}

TEST(Client, DestroyingItEndsItsCalls) {
  FakeServer server(Never);
  std::vector<Waiter> waiters(3);
  {
    const auto client = Connect(server.address());
    for (Waiter& waiter : waiters) client->AttendAsync({}, kPatient, waiter.Callback());
  }
  for (Waiter& waiter : waiters) EXPECT_EQ(waiter.Wait().status().code(), absl::StatusCode::kCancelled);
}

TEST(Client, ClientsHaveConnectionsOfTheirOwn) {
  std::mutex mutex;
  std::set<std::string> peers;
  FakeServer server([&](const FakeCall& call) {
    const std::lock_guard<std::mutex> lock(mutex);
    peers.insert(call.peer);
    return Echo(call);
  });
  const auto first = Connect(server.address());
  const auto second = Connect(server.address());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(first->Attend(Trivial(), kPatient).ok());
    ASSERT_TRUE(second->Attend(Trivial(), kPatient).ok());
  }
  EXPECT_EQ(peers.size(), 2U);
}

TEST(Client, RefusesAnAnswerThatIsNone) {
  FakeServer server([](const FakeCall&) -> FakeAnswer {
    const grpc::Slice bytes("\x0a\xff");
    return {.response = grpc::ByteBuffer(&bytes, 1)};
  });
  const auto client = Connect(server.address());
  EXPECT_EQ(client->Attend({}, kPatient).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(client->GetServerInfo(kPatient).status().code(), absl::StatusCode::kInternal);
}

TEST(Client, AsksWhatTheServerIs) {
  FakeServer server([](const FakeCall& call) {
    if (call.method != "/attend.v1.AttentionService/GetServerInfo")
      return FailWith(grpc::StatusCode::UNIMPLEMENTED, "");
    attend::v1::GetServerInfoResponse response;
    response.set_version("1.2.3");
    return AnswerWith(response);
  });
  const auto answer = Connect(server.address())->GetServerInfo(kPatient);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->version(), "1.2.3");
}

TEST(Client, AsksForHealth) {
  FakeServer server([](const FakeCall& call) {
    v1::HealthCheckRequest request;
    EXPECT_TRUE(request.ParseFromString(Flatten(call.request)));
    if (call.method != "/grpc.health.v1.Health/Check") return FailWith(grpc::StatusCode::UNIMPLEMENTED, "");
    if (request.service() == "nobody") return FailWith(grpc::StatusCode::NOT_FOUND, "unknown service");
    v1::HealthCheckResponse response;
    response.set_status(request.service().empty() ? v1::HealthCheckResponse::SERVING_STATUS_SERVING
                                                  : v1::HealthCheckResponse::SERVING_STATUS_NOT_SERVING);
    return AnswerWith(response);
  });
  const auto client = Connect(server.address());
  const auto health = [&](const std::string& service) { return client->CheckHealth(service, kPatient).value(); };
  EXPECT_EQ(health(""), Health::kServing);
  EXPECT_EQ(health("attend.v1.AttentionService"), Health::kNotServing);
  EXPECT_EQ(health("nobody"), Health::kServiceUnknown);
}

}  // namespace
}  // namespace attend::client
