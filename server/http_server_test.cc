#include "server/http_server.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<ListeningAddress>> address = ListeningAddress::Create("127.0.0.1:0");
    ASSERT_TRUE(address.ok()) << address.status();
    absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Create(
        *std::move(address),
        {.ready = [this] { return ready_; }, .metrics = [] { return std::string("attend_test 1\n"); }});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  httplib::Result Get(const std::string& path) { return httplib::Client("http://" + server_->address()).Get(path); }

  absl::Status ready_;  // changed only between requests
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, IsAlive) {
  const httplib::Result answer = Get("/livez");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
}

TEST_F(HttpServerTest, SaysWhetherItIsReadyAndWhyNot) {
  EXPECT_EQ(Get("/readyz")->status, 200);
  ready_ = absl::UnavailableError("draining");
  const httplib::Result answer = Get("/readyz");
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body, "not ready: draining\n");
}

TEST_F(HttpServerTest, GivesMetricsAsPrometheusText) {
  const httplib::Result answer = Get("/metrics");
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "attend_test 1\n");
  EXPECT_THAT(answer->get_header_value("Content-Type"), HasSubstr("text/plain; version=0.0.4"));
}

TEST_F(HttpServerTest, AnAnswerIsWholeWhateverRangesAreAskedFor) {
  for (const std::string ranges : {"bytes=0-3", "bytes=0-,0-,0-,0-", "bytes=-2", "bytes=100-200"}) {
    for (const std::string page : {"/metrics", "/livez"}) {
      const httplib::Result answer =
          httplib::Client("http://" + server_->address()).Get(page, httplib::Headers{{"Range", ranges}});
      ASSERT_TRUE(answer) << ranges;
      EXPECT_EQ(answer->status, 200) << ranges;
      EXPECT_EQ(answer->body, page == "/livez" ? "alive\n" : "attend_test 1\n") << ranges;
      EXPECT_FALSE(answer->has_header("Content-Range")) << ranges;
    }
  }
}

TEST_F(HttpServerTest, KnowsNothingElse) {
  for (const std::string path : {"/", "/livez/", "/metrics/x", "/../etc/passwd"})
    EXPECT_EQ(Get(path)->status, 404) << path;
}

TEST_F(HttpServerTest, AnswersGetAndHeadOnly) {
  httplib::Client client("http://" + server_->address());
  EXPECT_EQ(client.Head("/livez")->status, 200);
  const httplib::Result posted = client.Post("/livez", std::string(1000, 'x'), "text/plain");
  ASSERT_TRUE(posted) << httplib::to_string(posted.error());
  EXPECT_EQ(posted->status, 405);
  EXPECT_EQ(posted->get_header_value("Allow"), "GET, HEAD");
}

}  // namespace
}  // namespace attend::server
