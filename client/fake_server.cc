#include "client/fake_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <mutex>
#include <utility>

namespace attend::client {

class FakeServer::Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  Reactor(FakeServer& server, grpc::GenericCallbackServerContext& context) : server_(server), context_(context) {
    call_.method = context.method();
    call_.peer = context.peer();
    for (const auto& [name, value] : context.client_metadata()) {
      call_.metadata.emplace(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
    }
    if (server.reading_) {
      StartRead(&call_.request);
    } else {
      WaitForCancellation();
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    ++server_.calls_;
    answer_ = server_.handler_(call_);
    if (answer_.never) return WaitForCancellation();
    for (const auto& [name, value] : answer_.trailers) context_.AddTrailingMetadata(name, value);
    if (!answer_.status.ok()) return Finish(answer_.status);
    StartWriteAndFinish(&answer_.response, grpc::WriteOptions(), answer_.status);
  }

  void OnCancel() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    if (waiting_) FinishCancelled();
  }

  void OnDone() override { delete this; }

 private:
  void WaitForCancellation() {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = true;
    if (cancelled_) FinishCancelled();
  }

  void FinishCancelled() {
    ++server_.cancelled_;
    Finish(grpc::Status::CANCELLED);
  }

  FakeServer& server_;
  grpc::GenericCallbackServerContext& context_;
  FakeCall call_;
  FakeAnswer answer_;
  std::mutex mutex_;
  bool waiting_ = false;  // for a cancellation, as it will never be answered
  bool cancelled_ = false;
};

class FakeServer::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(FakeServer& server) : server_(server) {}

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Reactor(server_, *context);
  }

  FakeServer& server_;
};

FakeAnswer AnswerWith(const google::protobuf::MessageLite& message) {
  const grpc::Slice bytes(message.SerializeAsString());
  return {.response = grpc::ByteBuffer(&bytes, 1)};
}

FakeAnswer FailWith(grpc::StatusCode code, const std::string& message) {
  return {.status = grpc::Status(code, message)};
}

FakeServer::FakeServer(Handler handler, int port) : handler_(std::move(handler)), service_(new Service(*this)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterCallbackGenericService(service_.get());
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace attend::client
