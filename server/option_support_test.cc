#include "server/option_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "core/violation.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace attend::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using ::testing::HasSubstr;

constexpr absl::string_view kVersion = "1.2.3";

v1::AttendRequest Request() {
  v1::AttendRequest request;
  request.mutable_query()->set_data_type(v1::DATA_TYPE_FLOAT16);
  return request;
}

// Sets `field` to something other than its default, of its default's meaning too.
void SetToSomething(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.MutableMessage(&message, &field);
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      field.is_repeated() ? reflection.AddInt64(&message, &field, 1) : reflection.SetInt64(&message, &field, 1);
      return;
    case FieldDescriptor::CPPTYPE_FLOAT:
      field.is_repeated() ? reflection.AddFloat(&message, &field, 1) : reflection.SetFloat(&message, &field, 1);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, true);
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      // FLOAT32 for the output of FLOAT16 inputs; elsewhere the last value there is.
      reflection.SetEnumValue(&message, &field,
                              field.enum_type() == v1::DataType_descriptor()
                                  ? v1::DATA_TYPE_FLOAT32
                                  : field.enum_type()->value(field.enum_type()->value_count() - 1)->number());
      return;
    default:
      FAIL() << "no value for a field of type " << field.type_name() << ": " << field.name();
  }
}

bool IsSupported(const std::string& name) {
  const auto supported = SupportedOptions();
  return std::find(supported.begin(), supported.end(), name) != supported.end();
}

// Every field of AttentionOptions and ResultSelection, whatever is added to them later.
void CheckEveryField(const std::function<Message*(v1::AttendRequest&)>& part, const std::string& prefix) {
  v1::AttendRequest prototype = Request();
  const auto& descriptor = *part(prototype)->GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    v1::AttendRequest request = Request();
    SetToSomething(*part(request), field);
    if (field.name() == "layout") request.mutable_options()->set_layout(v1::LAYOUT_BNHD);
    const absl::Status status = CheckOptionSupport(request, kVersion);
    if (IsSupported(field.name())) {
      EXPECT_TRUE(status.ok()) << field.name() << ": " << status;
      continue;
    }
    EXPECT_TRUE(absl::IsUnimplemented(status)) << field.name() << ": " << status;
    EXPECT_EQ(core::GetViolation(status)->field, prefix + field.name());
    EXPECT_EQ(core::GetViolation(status)->reason, "OPTION_NOT_SUPPORTED");
    EXPECT_THAT(std::string(status.message()), HasSubstr(field.name()));
    EXPECT_THAT(std::string(status.message()), HasSubstr("1.2.3"));
  }
}

TEST(CheckOptionSupportTest, EveryAttentionOptionIsSupportedOrRefused) {
  CheckEveryField([](v1::AttendRequest& r) -> Message* { return r.mutable_options(); }, "options.");
}

TEST(CheckOptionSupportTest, EveryResultIsSupportedOrRefused) {
  CheckEveryField([](v1::AttendRequest& r) -> Message* { return r.mutable_results(); }, "results.");
}

TEST(CheckOptionSupportTest, WhatIsSupportedIsInTheContract) {
  for (const std::string& name : SupportedOptions()) {
    EXPECT_TRUE(v1::AttentionOptions::descriptor()->FindFieldByName(name) != nullptr ||
                v1::ResultSelection::descriptor()->FindFieldByName(name) != nullptr)
        << name;
  }
}

TEST(CheckOptionSupportTest, AcceptsDefaultsSaidExplicitly) {
  v1::AttendRequest request = Request();
  v1::AttentionOptions& options = *request.mutable_options();
  options.set_layout(v1::LAYOUT_BHND);
  options.set_softcap(-0.0F);
  options.set_causal(v1::CAUSAL_ALIGNMENT_NONE);
  options.set_window_left(-1);
  options.set_window_right(-1);
  options.set_output_type(v1::DATA_TYPE_FLOAT16);
  options.set_reject_non_finite(false);
  request.mutable_results()->set_scores(v1::SCORE_STAGE_NONE);
  request.mutable_results()->set_omit_output(false);
  EXPECT_TRUE(CheckOptionSupport(request, kVersion).ok()) << CheckOptionSupport(request, kVersion);
}

TEST(CheckOptionSupportTest, RefusesRaggedBatchesByTheirLayout) {
  v1::AttendRequest request = Request();
  request.mutable_options()->set_layout(v1::LAYOUT_THD);
  const absl::Status status = CheckOptionSupport(request, kVersion);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(core::GetViolation(status)->field, "options.layout");
  EXPECT_EQ(core::GetViolation(status)->value, "LAYOUT_THD");
}

TEST(CheckOptionSupportTest, RefusesEveryScoreStage) {
  for (const v1::ScoreStage stage : {v1::SCORE_STAGE_SCALED, v1::SCORE_STAGE_SOFTCAPPED, v1::SCORE_STAGE_MASKED}) {
    v1::AttendRequest request = Request();
    request.mutable_results()->set_scores(stage);
    EXPECT_TRUE(absl::IsUnimplemented(CheckOptionSupport(request, kVersion))) << stage;
  }
}

TEST(CheckOptionSupportTest, RefusesAMaskEvenIfItIsEmpty) {
  v1::AttendRequest request = Request();
  request.mutable_options()->mutable_mask();
  EXPECT_TRUE(absl::IsUnimplemented(CheckOptionSupport(request, kVersion)));
}

TEST(CheckOptionSupportTest, SaysWhatIsSet) {
  v1::AttendRequest softcap = Request();
  softcap.mutable_options()->set_softcap(30);
  EXPECT_EQ(CheckOptionSupport(softcap, kVersion).message(),
            "options.softcap (30) is not computed by this server, attend 1.2.3");
  v1::AttendRequest slopes = Request();
  slopes.mutable_options()->add_alibi_slopes(1);
  slopes.mutable_options()->add_alibi_slopes(1);
  EXPECT_EQ(CheckOptionSupport(slopes, kVersion).message(),
            "options.alibi_slopes (2 elements) is not computed by this server, attend 1.2.3");
}

}  // namespace
}  // namespace attend::server
