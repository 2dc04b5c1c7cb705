// A suite that talks to one real server, started once, with the real client.
#ifndef ATTEND_TESTS_INTEGRATION_SERVER_TEST_H_
#define ATTEND_TESTS_INTEGRATION_SERVER_TEST_H_

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/attend_client.h"
#include "tests/testing/server_process.h"

namespace attend::testing {

class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { StartServer({}); }
  static void TearDownTestSuite() {
    client_.reset();
    if (server_ == nullptr) return;
    // Whatever the tests did to it, it ends well.
    EXPECT_EQ(server_->Stop(), 0) << server_->process().StandardError();
    server_.reset();
  }

  // For the SetUpTestSuite of suites that want other flags.
  static void StartServer(ServerProcess::Options options) {
    auto server = ServerProcess::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = client::Client::Create({.target = server_->grpc_address()});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  // A suite whose server did not start fails test by test rather than by a null pointer.
  void SetUp() override {
    if (client_ == nullptr) GTEST_FAIL() << "no server";
  }

  static ServerProcess& server() { return *server_; }
  static client::Client& client() { return *client_; }

 private:
  static inline std::unique_ptr<ServerProcess> server_;
  static inline std::unique_ptr<client::Client> client_;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_INTEGRATION_SERVER_TEST_H_
