// What most tests of the whole server begin with: a server with these flags, a client of it, something to ask.
#ifndef ATTEND_TESTS_INTEGRATION_SERVER_CALLS_H_
#define ATTEND_TESTS_INTEGRATION_SERVER_CALLS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/attend_client.h"
#include "tests/testing/server_process.h"

namespace attend::testing {

// Null, and the test has failed, if it did not start.
inline std::unique_ptr<ServerProcess> StartServer(std::vector<std::string> flags) {
  auto server = ServerProcess::Start({.flags = std::move(flags)});
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

inline std::unique_ptr<client::Client> Connect(const ServerProcess& server,
                                               const client::SecurityOptions& security = {}) {
  auto client = client::Client::Create({.target = server.grpc_address(), .security = security});
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

// One head of as many queries as keys. Owns what its request refers to.
struct SquareProblem {
  explicit SquareProblem(int64_t length, int64_t head_dim = 64) : elements(length * head_dim, 0.5F) {
    request.query = client::FloatTensorView({1, 1, length, head_dim}, elements);
    request.key = request.query;
    request.value = request.query;
  }
  std::vector<float> elements;
  client::AttendRequest request;
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_INTEGRATION_SERVER_CALLS_H_
