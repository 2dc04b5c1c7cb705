#include "server/metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

BuildIdentity Identity() { return {.version = "1.2.3", .onednn_version = "2.6.3", .instruction_set = "avx2"}; }

TEST(MetricsTest, CountsRequestsByMethodAndCode) {
  Metrics metrics(Identity());
  metrics.CountRequest(Method::kAttend, absl::StatusCode::kOk, absl::Milliseconds(2));
  metrics.CountRequest(Method::kAttend, absl::StatusCode::kOk, absl::Milliseconds(2));
  metrics.CountRequest(Method::kHealthCheck, absl::StatusCode::kNotFound, absl::Milliseconds(2));
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("attend_requests_total{code=\"OK\",method=\"Attend\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("attend_requests_total{code=\"NOT_FOUND\",method=\"Check\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("attend_request_duration_seconds_count 2\n"));
}

TEST(MetricsTest, ObservesARequest) {
  Metrics metrics(Identity());
  metrics.Observe({.receive = absl::Milliseconds(3),
                   .queue = absl::Seconds(2),
                   .compute = absl::Seconds(100),
                   .request_bytes = 2000,
                   .response_bytes = 500,
                   .query_length = 16,
                   .key_length = 70000});
  metrics.CountMultiplyAdds(1500);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("attend_receive_duration_seconds_bucket{le=\"0.0025\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("attend_receive_duration_seconds_bucket{le=\"0.005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("attend_queue_duration_seconds_sum 2\n"));
  EXPECT_THAT(text, HasSubstr("attend_compute_duration_seconds_bucket{le=\"60\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("attend_request_bytes_sum 2000\n"));
  EXPECT_THAT(text, HasSubstr("attend_response_bytes_sum 500\n"));
  EXPECT_THAT(text, HasSubstr("attend_query_length_sum 16\n"));
  EXPECT_THAT(text, HasSubstr("attend_key_length_sum 70000\n"));
  EXPECT_THAT(text, HasSubstr("attend_multiply_adds_total 1500\n"));
}

TEST(MetricsTest, EveryReasonAndStageIsThereFromTheStart) {
  Metrics metrics(Identity());
  metrics.CountRejected(RejectReason::kQueueFull);
  metrics.ObserveRefusal(absl::Milliseconds(1));
  metrics.CountCancelled(CallStage::kComputing);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("attend_rejected_total{reason=\"queue_full\"} 1\n"));
  for (const std::string reason :
       {"message_too_large", "never_admissible", "draining", "deadline", "receive_timeout"}) {
    EXPECT_THAT(text, HasSubstr("attend_rejected_total{reason=\"" + reason + "\"} 0\n"));
  }
  EXPECT_THAT(text, HasSubstr("attend_cancelled_total{stage=\"computing\"} 1\n"));
  for (const std::string stage : {"receiving", "queued", "sending"}) {
    EXPECT_THAT(text, HasSubstr("attend_cancelled_total{stage=\"" + stage + "\"} 0\n"));
  }
  EXPECT_THAT(text, HasSubstr("attend_refusal_duration_seconds_count 1\n"));
}

TEST(MetricsTest, ReadsLiveValuesWhenAsked) {
  Metrics metrics(Identity());
  double value = 1;
  metrics.AddLive({"attend_test_bytes", "A test.", false, [&value] { return value; }});
  metrics.AddLive({"attend_test_total", "A test.", true, [&value] { return value * 10; }});
  value = 2;
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("# TYPE attend_test_bytes gauge\nattend_test_bytes 2\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE attend_test_total counter\nattend_test_total 20\n"));
}

TEST(MetricsTest, LiveValuesOfOneNameAreOneFamily) {
  Metrics metrics(Identity());
  const auto one = [] { return 1.0; };
  const auto two = [] { return 2.0; };
  metrics.AddLive({"attend_test_total", "A test.", true, one, {{"reason", "a"}}});
  metrics.AddLive({"attend_test_total", "", true, two, {{"reason", "b"}}});
  EXPECT_THAT(metrics.Text(), HasSubstr("# HELP attend_test_total A test.\n# TYPE attend_test_total counter\n"
                                        "attend_test_total{reason=\"a\"} 1\nattend_test_total{reason=\"b\"} 2\n"));
}

TEST(MetricsTest, NamesTheBuild) {
  EXPECT_THAT(Metrics(Identity()).Text(),
              HasSubstr("attend_build_info{instruction_set=\"avx2\",onednn_version=\"2.6.3\",version=\"1.2.3\"} 1\n"));
}

TEST(MetricsTest, HasTheStandardProcessMetrics) {
  const std::string text = Metrics(Identity()).Text();
  EXPECT_THAT(text, ContainsRegex("process_cpu_seconds_total [0-9.]+\n"));
  EXPECT_THAT(text, ContainsRegex("process_start_time_seconds [0-9.e+]+\n"));
  EXPECT_THAT(text, ContainsRegex("process_virtual_memory_bytes [1-9][0-9]+\n"));
  EXPECT_THAT(text, ContainsRegex("process_resident_memory_bytes [1-9][0-9]+\n"));
  EXPECT_THAT(text, ContainsRegex("process_open_fds [1-9][0-9]*\n"));
  EXPECT_THAT(text, ContainsRegex("process_max_fds [1-9][0-9]*\n"));
}

TEST(MetricsTest, EveryFamilyHasHelpAndNoneIsThereTwice) {
  const std::string text = Metrics(Identity()).Text();
  for (size_t at = text.find("# TYPE "); at != std::string::npos; at = text.find("# TYPE ", at + 1)) {
    const std::string name = text.substr(at + 7, text.find(' ', at + 7) - at - 7);
    EXPECT_THAT(text, HasSubstr("# HELP " + name + " "));
    EXPECT_THAT(text.substr(at + 1), Not(HasSubstr("# TYPE " + name + " ")));
  }
}

}  // namespace
}  // namespace attend::server
