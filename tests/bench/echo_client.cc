#include "tests/bench/echo_client.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
#include <future>

#include "absl/strings/str_cat.h"
#include "attend/v1/attention.pb.h"

namespace attend::bench {
namespace {

constexpr char kMethod[] = "/attend.v1.AttentionService/Attend";

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

// The head of an AttendRequest whose query has `bytes` of data.
std::string Head(uint64_t bytes) {
  constexpr uint32_t kQueryTag = (v1::AttendRequest::kQueryFieldNumber << 3) | 2;
  constexpr uint32_t kDataTag = (v1::Tensor::kDataFieldNumber << 3) | 2;
  std::string head;
  google::protobuf::io::StringOutputStream stream(&head);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteTag(kQueryTag);
  coded.WriteVarint64(1 + google::protobuf::io::CodedOutputStream::VarintSize64(bytes) + bytes);
  coded.WriteTag(kDataTag);
  coded.WriteVarint64(bytes);
  coded.Trim();
  return head;
}

}  // namespace

EchoClient::EchoClient(const std::string& target, int64_t request_bytes, int64_t answer_bytes)
    : stub_(Connect(target)),
      payload_(static_cast<size_t>(request_bytes), 1),
      answer_bytes_(absl::StrCat(answer_bytes)),
      answer_(static_cast<size_t>(answer_bytes)) {
  const grpc::Slice slices[] = {
      grpc::Slice(Head(payload_.size())),
      grpc::Slice(payload_.data(), payload_.size(), grpc::Slice::STATIC_SLICE),
  };
  request_ = grpc::ByteBuffer(slices, 2);
}

absl::Status EchoClient::Call() {
  grpc::ClientContext context;
  context.AddMetadata("answer-bytes", answer_bytes_);
  context.set_wait_for_ready(true);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  stub_.UnaryCall(&context, kMethod, grpc::StubOptions(), &request_, &response,
                  [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
  const grpc::Status status = ended.get_future().get();
  if (!status.ok()) return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  if (response.Length() < answer_.size()) {
    return absl::InternalError(absl::StrCat("an answer of ", response.Length(), " bytes, not ", answer_.size()));
  }
  std::vector<grpc::Slice> slices;
  (void)response.Dump(&slices);
  answer_.resize(response.Length());
  char* to = answer_.data();
  for (const grpc::Slice& slice : slices) {
    std::memcpy(to, slice.begin(), slice.size());
    to += slice.size();
  }
  return absl::OkStatus();
}

}  // namespace attend::bench
