// No option is ignored: every field of AttentionOptions and ResultSelection, and every value of those that are
// enumerations, is set in turn, and either changes the result as the oracle says or is refused. The fields are taken
// from the descriptors, so that one that is added to the contract without a case here fails this test.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include "attend/v1/attention.grpc.pb.h"
#include "attend/v1/attention.pb.h"
#include "tests/integration/option_cases.h"
#include "tests/integration/server_test.h"
#include "tests/integration/wire_problem.h"
#include "tests/testing/generators.h"
#include "tests/testing/oracle_check.h"

namespace attend::testing {
namespace {

using core::AttentionProblem;
using core::AttentionShape;
using core::Layout;
using google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 42;

std::vector<const FieldDescriptor*> OptionFields() {
  std::vector<const FieldDescriptor*> fields;
  for (const auto* message : {v1::AttentionOptions::descriptor(), v1::ResultSelection::descriptor()}) {
    for (int n = 0; n < message->field_count(); ++n) fields.push_back(message->field(n));
  }
  return fields;
}

class OptionCoverageTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    stub_ =
        v1::AttentionService::NewStub(grpc::CreateChannel(server().grpc_address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->GetServerInfo(&context, {}, &info_).ok());
  }

  grpc::Status Attend(const v1::AttendRequest& request, v1::AttendResponse* response) {
    grpc::ClientContext context;
    return stub_->Attend(&context, request, response);
  }

  bool IsSupported(const std::string& field) const {
    return std::find(info_.supported_options().begin(), info_.supported_options().end(), field) !=
           info_.supported_options().end();
  }

  bool BFloat16Products() const {
    return std::find(info_.native_types().begin(), info_.native_types().end(), v1::DATA_TYPE_BFLOAT16) !=
           info_.native_types().end();
  }

  static AttentionProblem MakeProblem(const Meaning& meaning) {
    AttentionShape shape = kOptionShape;
    if (meaning.options.layout == Layout::kTHD) {
      shape.query_length *= shape.batch;
      shape.key_length *= shape.batch;
    }
    return AttentionProblem::Create(shape, meaning.type, meaning.options, meaning.results).value();
  }

  // The tensors of `problem`, with what `settings` add.
  static v1::AttendRequest MakeRequest(const AttentionProblem& problem, const std::vector<const Setting*>& settings) {
    v1::AttendRequest request = MakeTensors(problem, Generate(problem, kSeed));
    for (const Setting* setting : settings) setting->set(request);
    return request;
  }

  // What MakeRequest took the tensors from; mask and bias are those of the request.
  static ProblemValues ValuesOf(const AttentionProblem& problem, const v1::AttendRequest& request) {
    ProblemValues values = Generate(problem, kSeed);
    const std::string& mask = request.options().mask().data();
    const std::string& bias = request.options().bias().data();
    values.mask.assign(mask.begin(), mask.end());
    values.bias.resize(bias.size() / sizeof(float));
    std::copy(bias.begin(), bias.end(), reinterpret_cast<char*>(values.bias.data()));
    return values;
  }

  // The response without what differs from call to call.
  static std::string Computed(v1::AttendResponse response) {
    response.clear_timings();
    response.clear_request_id();
    response.clear_multiply_adds();
    return response.SerializeAsString();
  }

  void ExpectComputed(const OptionCase& test, const v1::AttendRequest& request, const AttentionProblem& problem,
                      const v1::AttendResponse& without) {
    v1::AttendResponse with;
    const grpc::Status status = Attend(request, &with);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const auto results = ReadResults(problem, with);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(CheckResults(problem, ValuesOf(problem, request), *results), absl::OkStatus());
    EXPECT_EQ(Computed(with) != Computed(without), test.effect == Effect::kChanges);
  }

  void ExpectRefused(const OptionCase& test, const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    // A layout alone is refused for the shapes and starts that it lacks.
    if (test.field != "layout") {
      EXPECT_THAT(status.error_message(), HasSubstr(test.field));
    }
  }

  v1::GetServerInfoResponse info_;

 private:
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

TEST_F(OptionCoverageTest, EveryOptionChangesTheResultOrIsRefused) {
  for (const OptionCase& test : AllOptionCases(BFloat16Products())) {
    SCOPED_TRACE(test.field + " = " + test.value);
    Meaning meaning;
    test.beside.meaning(meaning);
    const AttentionProblem plain = MakeProblem(meaning);
    v1::AttendResponse without;
    const grpc::Status status = Attend(MakeRequest(plain, {&test.beside}), &without);
    ASSERT_TRUE(status.ok()) << status.error_message();
    if (test.effect == Effect::kInvalid) {
      ExpectRefused(test, MakeRequest(plain, {&test.beside, &test.option}));
      continue;
    }
    test.option.meaning(meaning);
    const AttentionProblem problem = MakeProblem(meaning);
    ExpectComputed(test, MakeRequest(problem, {&test.beside, &test.option}), problem, without);
  }
}

TEST_F(OptionCoverageTest, EveryFieldOfTheContractHasACase) {
  const std::vector<OptionCase> cases = AllOptionCases(/*bfloat16_products=*/true);
  for (const FieldDescriptor* field : OptionFields()) {
    const auto is_of_field = [field](const OptionCase& option) { return option.field == field->name(); };
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), is_of_field)) << field->full_name() << " has no case";
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    for (int n = 0; n < field->enum_type()->value_count(); ++n) {
      const std::string value = field->enum_type()->value(n)->name();
      const auto is_of_value = [&](const OptionCase& option) { return is_of_field(option) && option.value == value; };
      EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), is_of_value))
          << field->full_name() << " = " << value << " has no case";
    }
  }
}

TEST_F(OptionCoverageTest, EveryCaseSetsTheFieldItNamesAndNoOther) {
  for (const OptionCase& test : AllOptionCases(/*bfloat16_products=*/true)) {
    v1::AttendRequest request;
    test.option.set(request);
    std::set<std::string> set;
    for (const google::protobuf::Message* message :
         {static_cast<const google::protobuf::Message*>(&request.options()),
          static_cast<const google::protobuf::Message*>(&request.results())}) {
      std::vector<const FieldDescriptor*> fields;
      message->GetReflection()->ListFields(*message, &fields);
      for (const FieldDescriptor* field : fields) set.insert(field->name());
    }
    if (set.empty() && test.effect == Effect::kIsDefault) continue;  // without presence, a default cannot be seen
    EXPECT_EQ(set, std::set<std::string>{test.field}) << test.field << " = " << test.value;
  }
}

// supported_options are all fields, and exactly those that have a case which makes a difference.
TEST_F(OptionCoverageTest, TheServerListsWhatItComputes) {
  for (const FieldDescriptor* field : OptionFields()) {
    bool changes = false;
    for (const OptionCase& option : AllOptionCases(/*bfloat16_products=*/true)) {
      changes |= option.field == field->name() && option.effect != Effect::kIsDefault;
    }
    EXPECT_EQ(IsSupported(field->name()), changes) << field->full_name();
  }
  EXPECT_EQ(std::set<std::string>(info_.supported_options().begin(), info_.supported_options().end()).size(),
            info_.supported_options_size());
}

// An enumeration's number that this version does not know is an error, never the default.
TEST_F(OptionCoverageTest, UnknownNumbersOfEnumerationsAreRefused) {
  const AttentionProblem problem = MakeProblem({});
  for (const FieldDescriptor* field : OptionFields()) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    v1::AttendRequest request = MakeTensors(problem, Generate(problem, kSeed));
    google::protobuf::Message* message = field->containing_type() == v1::AttentionOptions::descriptor()
                                             ? static_cast<google::protobuf::Message*>(request.mutable_options())
                                             : request.mutable_results();
    message->GetReflection()->SetEnumValue(message, field, 99);
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field->full_name();
    EXPECT_THAT(status.error_message(), HasSubstr("99"));
  }
}

// The fields beside options and results: the id comes back, and no priority changes a result.
TEST_F(OptionCoverageTest, RequestIdAndPriority) {
  const AttentionProblem problem = MakeProblem({});
  const v1::AttendRequest plain = MakeTensors(problem, Generate(problem, kSeed));
  v1::AttendResponse want;
  ASSERT_TRUE(Attend(plain, &want).ok());
  for (int priority : {0, 1, 5, 9}) {
    v1::AttendRequest request = plain;
    request.set_priority(priority);
    request.set_request_id("id " + std::to_string(priority));
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.request_id(), request.request_id());
    EXPECT_EQ(Computed(response), Computed(want));
  }
  for (int priority : {-1, 10}) {
    v1::AttendRequest request = plain;
    request.set_priority(priority);
    v1::AttendResponse response;
    EXPECT_EQ(Attend(request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << priority;
  }
  EXPECT_EQ(v1::AttendRequest::descriptor()->field_count(), 7) << "a new field of AttendRequest needs a test here";
}

}  // namespace
}  // namespace attend::testing
