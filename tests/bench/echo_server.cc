// The least that a gRPC server can do with a request of so many bytes: take it in, and answer as many as are asked for.
// What the service takes beyond its computing is compared with this.
//
//   attend_bench_echo sync|callback|raw
//
// listens on a free port of 127.0.0.1, prints it as {"port": 1234}, and ends with its standard input. The method is
// that of the service itself, AttentionService.Attend; the metadata `answer-bytes` says how long its output shall be.
//   sync      gRPC's own threads, messages of protobuf
//   callback  reactors, messages of protobuf
//   raw       reactors, messages as bytes: the request is copied once, into one piece of memory that is used again, as
//             whoever computes with it must; the answer refers to memory that is there already
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/grpcpp.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "attend/v1/attention.grpc.pb.h"

namespace attend::bench {
namespace {

constexpr char kAnswerBytes[] = "answer-bytes";

size_t AnswerBytes(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find(kAnswerBytes);
  int64_t bytes = 0;
  if (found != context.client_metadata().end()) {
    (void)absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &bytes);
  }
  return static_cast<size_t>(bytes);
}

class SyncEcho final : public v1::AttentionService::Service {
  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest* /*request*/,
                      v1::AttendResponse* response) override {
    response->mutable_output()->mutable_data()->resize(AnswerBytes(*context));
    return grpc::Status::OK;
  }
};

class CallbackEcho final : public v1::AttentionService::CallbackService {
  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context, const v1::AttendRequest* /*request*/,
                                   v1::AttendResponse* response) override {
    response->mutable_output()->mutable_data()->resize(AnswerBytes(*context));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// Blocks of memory that calls use one after the other.
class Blocks {
 public:
  std::vector<char> Take(size_t bytes) {
    std::vector<char> block;
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      block = std::move(free_.back());
      free_.pop_back();
    }
    if (block.size() < bytes) block.resize(bytes);
    return block;
  }

  void Give(std::vector<char> block) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(block));
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<char>> free_;
};

class RawEcho final : public v1::AttentionService::WithRawCallbackMethod_Attend<v1::AttentionService::Service> {
  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    std::vector<char> block = blocks_.Take(request->Length());
    std::vector<grpc::Slice> slices;
    (void)request->Dump(&slices);
    char* to = block.data();
    for (const grpc::Slice& slice : slices) {
      std::memcpy(to, slice.begin(), slice.size());
      to += slice.size();
    }
    blocks_.Give(std::move(block));
    *response = Answer(AnswerBytes(*context));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  // An AttendResponse with `bytes` of output. Its memory is never freed, nor written again.
  grpc::ByteBuffer Answer(size_t bytes) {
    constexpr uint32_t kOutputTag = (v1::AttendResponse::kOutputFieldNumber << 3) | 2;
    constexpr uint32_t kDataTag = (v1::Tensor::kDataFieldNumber << 3) | 2;
    std::string head;
    {
      google::protobuf::io::StringOutputStream stream(&head);
      google::protobuf::io::CodedOutputStream coded(&stream);
      const size_t inner = 1 + google::protobuf::io::CodedOutputStream::VarintSize64(bytes) + bytes;
      coded.WriteTag(kOutputTag);
      coded.WriteVarint64(inner);
      coded.WriteTag(kDataTag);
      coded.WriteVarint64(bytes);
    }
    const grpc::Slice slices[] = {grpc::Slice(head), Payload(bytes)};
    return {slices, 2};
  }

  grpc::Slice Payload(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& payload : payloads_) {
      if (payload->size() == bytes) return {payload->data(), bytes, grpc::Slice::STATIC_SLICE};
    }
    payloads_.push_back(std::make_unique<std::vector<char>>(bytes, 1));
    return {payloads_.back()->data(), bytes, grpc::Slice::STATIC_SLICE};
  }

  Blocks blocks_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::vector<char>>> payloads_;  // of each length that was asked for
};

std::unique_ptr<grpc::Service> MakeService(const std::string& kind) {
  if (kind == "sync") return std::make_unique<SyncEcho>();
  if (kind == "callback") return std::make_unique<CallbackEcho>();
  if (kind == "raw") return std::make_unique<RawEcho>();
  return nullptr;
}

int Run(const std::string& kind) {
  const std::unique_ptr<grpc::Service> service = MakeService(kind);
  if (service == nullptr) {
    std::cerr << "attend_bench_echo: usage: attend_bench_echo sync|callback|raw\n";
    return 2;
  }
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    std::cerr << "attend_bench_echo: no port of 127.0.0.1 can be listened on\n";
    return 1;
  }
  std::cout << "{\"port\": " << port << "}\n" << std::flush;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

}  // namespace
}  // namespace attend::bench

int main(int argc, char** argv) { return attend::bench::Run(argc > 1 ? argv[1] : ""); }
