// No option is ignored: every field of AttentionOptions and ResultSelection, and every value of those that are
// enumerations, is set in turn, and either changes the result as the oracle says or is refused. The fields are taken
// from the descriptors, so that one that is added to the contract without a case here fails this test.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include "attend/v1/attention.grpc.pb.h"
#include "attend/v1/attention.pb.h"
#include "tests/integration/server_test.h"
#include "tests/integration/wire_problem.h"
#include "tests/testing/generators.h"
#include "tests/testing/oracle_check.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::AttentionProblem;
using core::AttentionShape;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;
using core::ResultSelection;
using google::protobuf::FieldDescriptor;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr AttentionShape kShape = {
    .batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 5, .key_length = 9, .head_dim = 8, .value_dim = 6};
constexpr uint64_t kSeed = 42;

// What setting an option does.
enum class Effect {
  kChanges,        // other results, as the oracle says
  kIsDefault,      // the results of a request that does not set it
  kUnimplemented,  // refused: part of the contract, not computed yet
  kInvalid,        // refused: could never be computed
};

// What the oracle is told.
struct Meaning {
  ElementType type = ElementType::kFloat32;
  AttentionOptions options = {};
  ResultSelection results = {};
};

struct OptionCase {
  std::string field;  // as in the proto
  std::string value;  // of an enumeration as in the proto, of anything else for reports
  Effect effect;
  std::function<void(v1::AttendRequest&)> set;
  std::function<void(Meaning&)> meaning = [](Meaning&) {};
};

v1::AttentionOptions& Options(v1::AttendRequest& request) { return *request.mutable_options(); }
v1::ResultSelection& Results(v1::AttendRequest& request) { return *request.mutable_results(); }

// A tensor [query_length, key_length] whose elements are all zero bytes.
void SetMaskTensor(v1::DataType type, int64_t element_bytes, v1::Tensor* tensor) {
  tensor->set_data_type(type);
  tensor->add_shape(kShape.query_length);
  tensor->add_shape(kShape.key_length);
  tensor->set_data(std::string(kShape.query_length * kShape.key_length * element_bytes, '\0'));
}

void AddLayoutAndCausalCases(std::vector<OptionCase>* cases) {
  const auto layout = [cases](v1::Layout value, Effect effect, Layout meaning) {
    cases->push_back({"layout", v1::Layout_Name(value), effect,
                      [value](v1::AttendRequest& request) { Options(request).set_layout(value); },
                      [meaning](Meaning& told) { told.options.layout = meaning; }});
  };
  layout(v1::LAYOUT_UNSPECIFIED, Effect::kIsDefault, Layout::kBHND);
  layout(v1::LAYOUT_BHND, Effect::kIsDefault, Layout::kBHND);
  layout(v1::LAYOUT_BNHD, Effect::kChanges, Layout::kBNHD);
  layout(v1::LAYOUT_THD, Effect::kUnimplemented, Layout::kBHND);
  const auto causal = [cases](v1::CausalAlignment value, Effect effect, CausalAlignment meaning) {
    cases->push_back({"causal", v1::CausalAlignment_Name(value), effect,
                      [value](v1::AttendRequest& request) { Options(request).set_causal(value); },
                      [meaning](Meaning& told) { told.options.causal = meaning; }});
  };
  causal(v1::CAUSAL_ALIGNMENT_UNSPECIFIED, Effect::kIsDefault, CausalAlignment::kNone);
  causal(v1::CAUSAL_ALIGNMENT_NONE, Effect::kIsDefault, CausalAlignment::kNone);
  causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT, Effect::kChanges, CausalAlignment::kTopLeft);
  causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT, Effect::kChanges, CausalAlignment::kBottomRight);
}

void AddNumberCases(std::vector<OptionCase>* cases) {
  for (float scale : {0.0F, -0.5F, 2.0F}) {
    cases->push_back({"scale", std::to_string(scale), Effect::kChanges,
                      [scale](v1::AttendRequest& request) { Options(request).set_scale(scale); },
                      [scale](Meaning& told) { told.options.scale = scale; }});
  }
  const auto number = [cases](std::string field, std::string value, Effect effect,
                              std::function<void(v1::AttendRequest&)> set) {
    cases->push_back({std::move(field), std::move(value), effect, std::move(set)});
  };
  number("softcap", "2", Effect::kUnimplemented, [](auto& request) { Options(request).set_softcap(2); });
  number("softcap", "0", Effect::kIsDefault, [](auto& request) { Options(request).set_softcap(0); });
  number("softcap", "-1", Effect::kInvalid, [](auto& request) { Options(request).set_softcap(-1); });
  for (int64_t keys : {0, 3}) {
    const std::string text = std::to_string(keys);
    number("window_left", text, Effect::kUnimplemented, [keys](auto& r) { Options(r).set_window_left(keys); });
    number("window_right", text, Effect::kUnimplemented, [keys](auto& r) { Options(r).set_window_right(keys); });
  }
  number("window_left", "-1", Effect::kIsDefault, [](auto& request) { Options(request).set_window_left(-1); });
  number("window_right", "-1", Effect::kIsDefault, [](auto& request) { Options(request).set_window_right(-1); });
  number("window_left", "-2", Effect::kInvalid, [](auto& request) { Options(request).set_window_left(-2); });
  number("window_right", "-2", Effect::kInvalid, [](auto& request) { Options(request).set_window_right(-2); });
  number("reject_non_finite", "true", Effect::kUnimplemented,
         [](auto& request) { Options(request).set_reject_non_finite(true); });
}

void AddListAndTensorCases(std::vector<OptionCase>* cases) {
  cases->push_back({"key_lengths", "0, 7", Effect::kChanges,
                    [](v1::AttendRequest& request) {
                      Options(request).add_key_lengths(0);
                      Options(request).add_key_lengths(7);
                    },
                    [](Meaning& told) {
                      told.options.key_lengths = {0, 7};
                    }});
  const auto refused = [cases](std::string field, const std::function<void(v1::AttentionOptions&)>& set) {
    cases->push_back({std::move(field), "a value", Effect::kUnimplemented,
                      [set](v1::AttendRequest& request) { set(Options(request)); }});
  };
  refused("query_offset", [](auto& options) {
    for (int64_t b = 0; b < kShape.batch; ++b) options.add_query_offset(1);
  });
  refused("query_starts", [](auto& options) {
    for (int64_t b = 0; b <= kShape.batch; ++b) options.add_query_starts(b * kShape.query_length);
  });
  refused("key_starts", [](auto& options) {
    for (int64_t b = 0; b <= kShape.batch; ++b) options.add_key_starts(b * kShape.key_length);
  });
  refused("mask", [](auto& options) { SetMaskTensor(v1::DATA_TYPE_BOOL, 1, options.mutable_mask()); });
  refused("bias", [](auto& options) { SetMaskTensor(v1::DATA_TYPE_FLOAT32, 4, options.mutable_bias()); });
  refused("alibi_slopes", [](auto& options) {
    for (int64_t h = 0; h < kShape.query_heads; ++h) options.add_alibi_slopes(0.5F);
  });
  refused("sinks", [](auto& options) {
    for (int64_t h = 0; h < kShape.query_heads; ++h) options.add_sinks(1);
  });
}

void AddTypeCases(std::vector<OptionCase>* cases) {
  const auto compute_type = [cases](v1::ComputeType value, Effect effect) {
    cases->push_back({"compute_type", v1::ComputeType_Name(value), effect,
                      [value](v1::AttendRequest& request) { Options(request).set_compute_type(value); }});
  };
  compute_type(v1::COMPUTE_TYPE_UNSPECIFIED, Effect::kIsDefault);
  compute_type(v1::COMPUTE_TYPE_BF16, Effect::kUnimplemented);
  const auto output_type = [cases](v1::DataType value, ElementType inputs, Effect effect) {
    cases->push_back({"output_type", v1::DataType_Name(value), effect,
                      [value](v1::AttendRequest& request) { Options(request).set_output_type(value); },
                      [inputs](Meaning& told) { told.type = inputs; }});
  };
  output_type(v1::DATA_TYPE_UNSPECIFIED, ElementType::kFloat32, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT32, ElementType::kFloat32, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT32, ElementType::kBFloat16, Effect::kUnimplemented);
  output_type(v1::DATA_TYPE_FLOAT32, ElementType::kFloat16, Effect::kUnimplemented);
  output_type(v1::DATA_TYPE_BFLOAT16, ElementType::kBFloat16, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT16, ElementType::kFloat16, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT16, ElementType::kFloat32, Effect::kInvalid);
  output_type(v1::DATA_TYPE_BOOL, ElementType::kFloat32, Effect::kInvalid);
  output_type(v1::DATA_TYPE_INT64, ElementType::kFloat32, Effect::kInvalid);
}

void AddResultCases(std::vector<OptionCase>* cases) {
  cases->push_back({"weights", "true", Effect::kChanges, [](auto& request) { Results(request).set_weights(true); },
                    [](Meaning& told) { told.results.weights = true; }});
  cases->push_back({"logsumexp", "true", Effect::kChanges, [](auto& request) { Results(request).set_logsumexp(true); },
                    [](Meaning& told) { told.results.logsumexp = true; }});
  const auto refused = [cases](std::string field, std::string value,
                               const std::function<void(v1::ResultSelection&)>& set) {
    cases->push_back({std::move(field), std::move(value), Effect::kUnimplemented,
                      [set](v1::AttendRequest& request) { set(Results(request)); }});
  };
  refused("weight_query_rows", "1", [](auto& results) {
    results.set_weights(true);
    results.add_weight_query_rows(1);
  });
  refused("average_weights_over_heads", "true", [](auto& results) { results.set_average_weights_over_heads(true); });
  refused("omit_output", "true", [](auto& results) { results.set_omit_output(true); });
  for (v1::ScoreStage stage : {v1::SCORE_STAGE_SCALED, v1::SCORE_STAGE_SOFTCAPPED, v1::SCORE_STAGE_MASKED}) {
    refused("scores", v1::ScoreStage_Name(stage), [stage](auto& results) { results.set_scores(stage); });
  }
  for (v1::ScoreStage stage : {v1::SCORE_STAGE_UNSPECIFIED, v1::SCORE_STAGE_NONE}) {
    cases->push_back({"scores", v1::ScoreStage_Name(stage), Effect::kIsDefault,
                      [stage](v1::AttendRequest& request) { Results(request).set_scores(stage); }});
  }
}

std::vector<OptionCase> AllCases() {
  std::vector<OptionCase> cases;
  AddLayoutAndCausalCases(&cases);
  AddNumberCases(&cases);
  AddListAndTensorCases(&cases);
  AddTypeCases(&cases);
  AddResultCases(&cases);
  return cases;
}

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

  static AttentionProblem MakeProblem(const Meaning& meaning) {
    return AttentionProblem::Create(kShape, meaning.type, meaning.options, meaning.results).value();
  }

  // The response without what differs from call to call.
  static std::string Computed(v1::AttendResponse response) {
    response.clear_timings();
    response.clear_request_id();
    response.clear_multiply_adds();
    return response.SerializeAsString();
  }

  void ExpectComputed(const OptionCase& option, const v1::AttendRequest& request, const AttentionProblem& problem,
                      const v1::AttendRequest& plain) {
    v1::AttendResponse with;
    v1::AttendResponse without;
    const grpc::Status status = Attend(request, &with);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const auto results = ReadResults(problem, with);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(CheckResults(problem, Generate(problem, kSeed), *results), absl::OkStatus());
    ASSERT_TRUE(Attend(plain, &without).ok());
    EXPECT_EQ(Computed(with) != Computed(without), option.effect == Effect::kChanges);
  }

  void ExpectRefused(const OptionCase& option, const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    EXPECT_EQ(status.error_code(),
              option.effect == Effect::kInvalid ? grpc::StatusCode::INVALID_ARGUMENT : grpc::StatusCode::UNIMPLEMENTED)
        << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(option.field));
    if (option.effect == Effect::kInvalid) return;
    EXPECT_THAT(status.error_message(), HasSubstr(info_.version()));
  }

  v1::GetServerInfoResponse info_;

 private:
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

TEST_F(OptionCoverageTest, EveryOptionChangesTheResultOrIsRefused) {
  for (const OptionCase& option : AllCases()) {
    SCOPED_TRACE(option.field + " = " + option.value);
    Meaning meaning;
    option.meaning(meaning);
    const AttentionProblem problem = MakeProblem(meaning);
    const AttentionProblem plain = MakeProblem({.type = meaning.type});
    v1::AttendRequest request = MakeTensors(problem, Generate(problem, kSeed));
    option.set(request);
    if (option.effect == Effect::kChanges || option.effect == Effect::kIsDefault) {
      ExpectComputed(option, request, problem, MakeTensors(plain, Generate(plain, kSeed)));
    } else {
      ExpectRefused(option, request);
    }
  }
}

TEST_F(OptionCoverageTest, EveryFieldOfTheContractHasACase) {
  const std::vector<OptionCase> cases = AllCases();
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

TEST_F(OptionCoverageTest, EveryCaseSetsTheFieldItNames) {
  for (const OptionCase& option : AllCases()) {
    v1::AttendRequest request;
    option.set(request);
    std::set<std::string> set;
    for (const google::protobuf::Message* message :
         {static_cast<const google::protobuf::Message*>(&request.options()),
          static_cast<const google::protobuf::Message*>(&request.results())}) {
      std::vector<const FieldDescriptor*> fields;
      message->GetReflection()->ListFields(*message, &fields);
      for (const FieldDescriptor* field : fields) set.insert(field->name());
    }
    if (option.effect == Effect::kIsDefault) continue;  // without presence, a default cannot be seen to be set
    EXPECT_THAT(set, Contains(option.field)) << option.value;
  }
}

// supported_options are exactly the fields that have a case which computes something else.
TEST_F(OptionCoverageTest, TheServerListsWhatItComputes) {
  for (const FieldDescriptor* field : OptionFields()) {
    bool changes = false;
    for (const OptionCase& option : AllCases()) {
      changes |= option.field == field->name() && option.effect == Effect::kChanges;
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
