// Calls of attend_bench_echo (echo_server.cc), with as little work on this side as gRPC allows.
#ifndef ATTEND_TESTS_BENCH_ECHO_CLIENT_H_
#define ATTEND_TESTS_BENCH_ECHO_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace attend::bench {

// A connection of its own. One call at a time.
class EchoClient {
 public:
  EchoClient(const std::string& target, int64_t request_bytes, int64_t answer_bytes);

  // Sends the request and waits for the answer, whose bytes are gathered into one piece of memory. The server's status,
  // or INTERNAL if it answered with fewer bytes than were asked for.
  absl::Status Call();

 private:
  grpc::GenericStub stub_;
  std::vector<char> payload_;
  grpc::ByteBuffer request_;
  std::string answer_bytes_;
  std::vector<char> answer_;
};

}  // namespace attend::bench

#endif  // ATTEND_TESTS_BENCH_ECHO_CLIENT_H_
