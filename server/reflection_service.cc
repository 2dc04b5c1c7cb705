#include "server/reflection_service.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/status_details.h"

namespace attend::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

void SetError(grpc::StatusCode code, const std::string& message, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

// `file` first, then what it imports, each once.
void AddFiles(const FileDescriptor& file, std::set<std::string>& added, ServerReflectionResponse& response) {
  if (!added.insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto description;
  file.CopyTo(&description);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(description.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), added, response);
}

void SetFile(const FileDescriptor* file, absl::string_view asked, ServerReflectionResponse& response) {
  if (file == nullptr) return SetError(grpc::StatusCode::NOT_FOUND, absl::StrCat("no ", asked), response);
  std::set<std::string> added;
  AddFiles(*file, added, response);
}

const FileDescriptor* FindExtension(const DescriptorPool& pool, const std::string& type, int number) {
  const Descriptor* const message = pool.FindMessageTypeByName(type);
  const FieldDescriptor* const field = message == nullptr ? nullptr : pool.FindExtensionByNumber(message, number);
  return field == nullptr ? nullptr : field->file();
}

void SetExtensionNumbers(const DescriptorPool& pool, const std::string& type, ServerReflectionResponse& response) {
  const Descriptor* const message = pool.FindMessageTypeByName(type);
  if (message == nullptr) return SetError(grpc::StatusCode::NOT_FOUND, absl::StrCat("no message ", type), response);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(message, &extensions);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  for (const FieldDescriptor* const extension : extensions) numbers.add_extension_number(extension->number());
}

}  // namespace

// One call: a request is read when the one before it is answered.
class ReflectionService::Reactor final
    : public grpc::ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse> {
 public:
  Reactor(const ReflectionService& service, const grpc::CallbackServerContext& context)
      : service_(service), peer_(context.peer()) {
    service_.connections_.BeginCall(peer_);
    status_ = service.security_.Identify(context).status();
    if (status_.ok()) {
      StartRead(&request_);
    } else {
      Finish(ToGrpcStatus(status_, {}));
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    service_.connections_.EndMessage(peer_, 0, static_cast<int64_t>(request_.ByteSizeLong()));
    response_ = service_.Answer(request_);
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
    StartRead(&request_);
  }

  void OnDone() override {
    service_.connections_.EndCall(peer_);
    service_.metrics_.CountRequest(Method::kOther, status_.code(), absl::Now() - start_);
    delete this;
  }

 private:
  const ReflectionService& service_;
  const std::string peer_;
  const absl::Time start_ = absl::Now();
  absl::Status status_;
  ServerReflectionRequest request_;
  ServerReflectionResponse response_;
};

grpc::ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse>* ReflectionService::ServerReflectionInfo(
    grpc::CallbackServerContext* context) {
  return new Reactor(*this, *context);
}

ServerReflectionResponse ReflectionService::Answer(const ServerReflectionRequest& request) const {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()), request.file_containing_symbol(),
              response);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& extension = request.file_containing_extension();
      SetFile(FindExtension(pool, extension.containing_type(), extension.extension_number()),
              absl::StrCat("extension ", extension.extension_number(), " of ", extension.containing_type()), response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensionNumbers(pool, request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services_)
        response.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::StatusCode::INVALID_ARGUMENT, "the request asks for nothing", response);
      break;
  }
  return response;
}

}  // namespace attend::server
