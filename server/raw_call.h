// For tests: a unary method called message by message, as no generated stub would.
#ifndef ATTEND_SERVER_RAW_CALL_H_
#define ATTEND_SERVER_RAW_CALL_H_

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace attend::server {

// One call. Flow control may hold a message back: Write does not wait for it, AwaitWritten does.
class RawCall : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
          absl::Duration timeout = absl::InfiniteDuration())
      : stub_(channel) {
    if (timeout != absl::InfiniteDuration()) context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    stub_.PrepareBidiStreamingCall(&context_, method, {}, this);
  }

  grpc::ClientContext& context() { return context_; }

  void Start() {
    AddHold();
    StartCall();
    StartRead(&response_);
  }

  void Write(const std::string& message) {
    const grpc::Slice slice(message);
    request_ = grpc::ByteBuffer(&slice, 1);
    written_ = std::promise<bool>();
    StartWrite(&request_);
  }
  void AwaitWritten() { written_.get_future().wait(); }

  void HalfClose() { StartWritesDone(); }

  // Waits for the end.
  grpc::Status Await() {
    RemoveHold();
    return ended_.get_future().get();
  }

  bool has_response() const { return has_response_; }
  const grpc::ByteBuffer& response() const { return response_; }

  // The value of a trailer, empty without it. After Await.
  std::string Trailer(const std::string& name) const {
    const auto found = context_.GetServerTrailingMetadata().find(name);
    if (found == context_.GetServerTrailingMetadata().end()) return "";
    return {found->second.data(), found->second.size()};
  }

  void OnReadDone(bool ok) override { has_response_ = ok; }
  void OnWriteDone(bool ok) override { written_.set_value(ok); }
  void OnDone(const grpc::Status& status) override { ended_.set_value(status); }

 private:
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  bool has_response_ = false;
  std::promise<bool> written_;
  std::promise<grpc::Status> ended_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_RAW_CALL_H_
