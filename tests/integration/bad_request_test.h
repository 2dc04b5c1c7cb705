// Bad requests through the wire: the code, field, reason, value and limit that one is refused with, and that the server
// computes the next request exactly as before.
#ifndef ATTEND_TESTS_INTEGRATION_BAD_REQUEST_TEST_H_
#define ATTEND_TESTS_INTEGRATION_BAD_REQUEST_TEST_H_

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attend/client/v1/error_details.pb.h"
#include "attend/v1/attention.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/server_test.h"

namespace attend::testing {

inline constexpr int64_t kMaxMessageBytes = int64_t{1} << 20;
inline constexpr char kAttend[] = "/attend.v1.AttentionService/Attend";

// What a status says to programs.
struct Details {
  std::string field;
  std::string reason;
  std::string value;
  std::string limit;
};

inline Details ReadDetails(const grpc::Status& status) {
  Details found;
  client::v1::Status details;
  if (!details.ParseFromString(status.error_details())) return found;
  for (const google::protobuf::Any& any : details.details()) {
    client::v1::BadRequest bad_request;
    client::v1::ErrorInfo error_info;
    if (any.type_url() == "type.googleapis.com/google.rpc.BadRequest" && bad_request.ParseFromString(any.value()) &&
        bad_request.field_violations_size() > 0) {
      found.field = bad_request.field_violations(0).field();
    }
    if (any.type_url() == "type.googleapis.com/google.rpc.ErrorInfo" && error_info.ParseFromString(any.value())) {
      found.reason = error_info.reason();
      found.value = error_info.metadata().at("value");
      found.limit = error_info.metadata().at("limit");
      EXPECT_EQ(error_info.domain(), "attend.v1");
    }
  }
  return found;
}

inline void Fill(attend::v1::Tensor& tensor, const std::vector<int64_t>& shape) {
  tensor.set_data_type(attend::v1::DATA_TYPE_FLOAT32);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  std::vector<float> elements(count);
  for (int64_t i = 0; i < count; ++i) elements[i] = std::sin(static_cast<float>(i));
  tensor.set_data(elements.data(), count * sizeof(float));
}

// Two batch elements, four query heads on two kv heads.
inline attend::v1::AttendRequest GoodRequest() {
  attend::v1::AttendRequest request;
  Fill(*request.mutable_query(), {2, 4, 3, 8});
  Fill(*request.mutable_key(), {2, 2, 5, 8});
  Fill(*request.mutable_value(), {2, 2, 5, 6});
  return request;
}

// One unary call with these bytes as its message. `answer`, if given, gets the response's bytes.
inline grpc::Status Call(grpc::GenericStub& stub, const std::string& method, const std::string& bytes,
                         std::string* answer = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (answer != nullptr && status.ok()) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(response.Dump(&slices).ok());
    for (const grpc::Slice& part : slices) answer->append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return status;
}

class BadRequestTest : public ServerTest {
 protected:
  static void SetUpTestSuite() {
    StartServer({.flags = {"--max_message_bytes=" + std::to_string(kMaxMessageBytes), "--memory_budget=512MiB"}});
  }

  void SetUp() override {
    ServerTest::SetUp();
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateChannel(server().grpc_address(), grpc::InsecureChannelCredentials()));
    good_output_ = OutputOf(GoodRequest());
    ASSERT_FALSE(good_output_.empty());
  }

  // After whatever a test did: the next request gets the same bits, and nothing is held any more.
  void TearDown() override {
    if (stub_ == nullptr) return;
    EXPECT_EQ(OutputOf(GoodRequest()), good_output_);
    const auto zero = [](double value) { return value == 0; };
    EXPECT_TRUE(server().WaitForMetric("attend_memory_reserved_bytes", zero).ok());
    EXPECT_TRUE(server().WaitForMetric("attend_receiving_bytes", zero).ok());
    EXPECT_TRUE(server().WaitForMetric("attend_in_flight_requests", zero).ok());
  }

  std::string OutputOf(const attend::v1::AttendRequest& request) {
    std::string answer;
    const grpc::Status status = Call(*stub_, kAttend, request.SerializeAsString(), &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    attend::v1::AttendResponse response;
    EXPECT_TRUE(response.ParseFromString(answer));
    return response.output().data();
  }

  grpc::GenericStub& stub() { return *stub_; }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
  std::string good_output_;
};

struct BadRequestCase {
  const char* name;
  std::function<void(attend::v1::AttendRequest&)> spoil;
  grpc::StatusCode code;
  const char* field;
  const char* reason;
  const char* value;
  const char* limit;  // a part of it
};

inline std::ostream& operator<<(std::ostream& out, const BadRequestCase& test) { return out << test.name; }

inline constexpr grpc::StatusCode kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
inline constexpr grpc::StatusCode kUnimplemented = grpc::StatusCode::UNIMPLEMENTED;
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a row of a table is held against. The rows: INSTANTIATE_TEST_SUITE_P.
class BadFieldTest : public BadRequestTest, public ::testing::WithParamInterface<BadRequestCase> {
 protected:
  void ExpectRefusedByName() {
    const BadRequestCase& test = GetParam();
    attend::v1::AttendRequest request = GoodRequest();
    test.spoil(request);
    const grpc::Status status = Call(stub(), kAttend, request.SerializeAsString());
    EXPECT_EQ(status.error_code(), test.code) << status.error_message();
    const Details details = ReadDetails(status);
    EXPECT_EQ(details.field, test.field) << status.error_message();
    EXPECT_EQ(details.reason, test.reason) << status.error_message();
    EXPECT_THAT(details.value, ::testing::StartsWith(test.value)) << status.error_message();
    EXPECT_THAT(details.limit, ::testing::HasSubstr(test.limit)) << status.error_message();
    // An unknown field has no name but its message's and its number.
    if (test.code == kInvalid) {
      EXPECT_THAT(status.error_message(), ::testing::HasSubstr(test.field));
    }
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr(test.value));
    EXPECT_LE(status.error_details().size(), 2048U);
  }
};

}  // namespace attend::testing

#endif  // ATTEND_TESTS_INTEGRATION_BAD_REQUEST_TEST_H_
