// A gRPC server in the test's own process that answers as the test says. For tests.
#ifndef ATTEND_CLIENT_FAKE_SERVER_H_
#define ATTEND_CLIENT_FAKE_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "google/protobuf/message_lite.h"

namespace attend::client {

struct FakeCall {
  std::string method;
  std::string peer;  // the connection: "ipv4:127.0.0.1:43210"
  std::multimap<std::string, std::string> metadata;
  grpc::ByteBuffer request;
};

struct FakeAnswer {
  grpc::Status status = grpc::Status::OK;
  grpc::ByteBuffer response = {};
  std::map<std::string, std::string> trailers = {};
  bool never = false;  // no answer until the client gives up
};

// An answer that is a message.
FakeAnswer AnswerWith(const google::protobuf::MessageLite& message);
FakeAnswer FailWith(grpc::StatusCode code, const std::string& message);

class FakeServer {
 public:
  // Called for every call, several at a time, when its message is there.
  using Handler = std::function<FakeAnswer(const FakeCall&)>;

  // Listens at a free port of 127.0.0.1, or at `port`.
  explicit FakeServer(Handler handler, int port = 0);
  // Breaks every call off.
  ~FakeServer();

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int calls() const { return calls_; }              // whose message arrived
  int cancellations() const { return cancelled_; }  // seen by calls that were never answered

  // The server stops reading messages: calls hang before their message is there.
  void StopReading() { reading_ = false; }

 private:
  class Service;
  class Reactor;

  Handler handler_;
  std::atomic<int> calls_ = 0;
  std::atomic<int> cancelled_ = 0;
  std::atomic<bool> reading_ = true;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_FAKE_SERVER_H_
