#include "server/request_log.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace attend::server {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

RequestRecord Record() {
  RequestRecord record;
  record.id = "r\n1";
  record.method = "Attend";
  record.peer = "ipv4:127.0.0.1:5";
  record.traceparent = "00-ab-cd-01";
  record.request_bytes = 100;
  record.response_bytes = 50;
  record.receive = absl::Microseconds(1500);
  record.queue = absl::Milliseconds(2);
  record.pack = absl::Milliseconds(3);
  record.compute = absl::Milliseconds(4);
  record.total = absl::Milliseconds(11);
  absl::StatusOr<core::AttentionProblem> problem = core::AttentionProblem::Create(
      {.batch = 1, .query_heads = 4, .kv_heads = 2, .query_length = 5, .key_length = 6, .head_dim = 7, .value_dim = 8},
      core::ElementType::kBFloat16);
  EXPECT_TRUE(problem.ok());
  record.problem = *problem;
  return record;
}

TEST(RequestLogTest, WritesEverythingThatIsKnown) {
  CaptureStderr();
  {
    Log log(LogFormat::kJson, LogLevel::kInfo);
    RequestLog(log, 10).Write(Record(), absl::UnixEpoch());
  }
  const nlohmann::json json = nlohmann::json::parse(GetCapturedStderr());
  const nlohmann::json expected = {
      {"id", "r\n1"},
      {"method", "Attend"},
      {"peer", "ipv4:127.0.0.1:5"},
      {"code", "OK"},
      {"type", "bf16"},
      {"batch", 1},
      {"query_heads", 4},
      {"kv_heads", 2},
      {"query_length", 5},
      {"key_length", 6},
      {"head_dim", 7},
      {"value_dim", 8},
      {"request_bytes", 100},
      {"response_bytes", 50},
      {"receive_ms", 1.5},
      {"queue_ms", 2.0},
      {"pack_ms", 3.0},
      {"compute_ms", 4.0},
      {"total_ms", 11.0},
      {"traceparent", "00-ab-cd-01"},
  };
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(json[name], value) << name;
  EXPECT_FALSE(json.contains("error"));
  EXPECT_FALSE(json.contains("skipped"));
}

TEST(RequestLogTest, SaysHowManyWereSkippedAndWhatFailed) {
  CaptureStderr();
  {
    Log log(LogFormat::kText, LogLevel::kInfo);
    RequestLog request_log(log, 1);
    RequestRecord record = Record();
    request_log.Write(record, absl::UnixEpoch());
    request_log.Write(record, absl::UnixEpoch());
    request_log.Write(record, absl::UnixEpoch());
    record.status = absl::InternalError("a bug");
    record.problem.reset();
    request_log.Write(record, absl::UnixEpoch() + absl::Seconds(1));
  }
  EXPECT_THAT(GetCapturedStderr(),
              HasSubstr("error request id=\"r\\n1\" method=Attend peer=ipv4:127.0.0.1:5 code=INTERNAL "
                        "error=\"a bug\" request_bytes=100 response_bytes=50"));
}

}  // namespace
}  // namespace attend::server
