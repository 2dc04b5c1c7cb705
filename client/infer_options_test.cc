#include "client/infer_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <string>

#include "google/protobuf/descriptor.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFiles[] = "--query q.npy --key k.npy --value v.npy --output o.npy ";

// Parses a command line; the message of what CLI11 refuses, else that of Validate.
std::string Parse(const std::string& line, InferOptions& options) {
  CLI::App app;
  AddInferOptions(app, options);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return std::string(options.Validate().message());
}

std::string Refusal(const std::string& line) {
  InferOptions options;
  return Parse(line, options);
}

TEST(InferOptions, DefaultsSayNothing) {
  InferOptions options;
  ASSERT_EQ(Parse(kFiles, options), "");
  EXPECT_EQ(ToAttentionOptions(options).ByteSizeLong(), 0u);
  EXPECT_EQ(ToResultSelection(options).ByteSizeLong(), 0u);
}

// Every field of the wire can be said, and none is said by two options.
TEST(InferOptions, EveryFieldOfTheWire) {
  InferOptions options;
  const std::string line =
      "--layout thd --scale -0.5 --softcap 30 --causal bottom_right --query_offset -1,2 --window_left -1 "
      "--window_right 4 "
      "--key_lengths 3,5 --query_starts 0,1 --key_starts 0,2 --alibi_slopes 0.5,0.25 --sinks -1,2.5 --compute_type "
      "bf16 "
      "--output_type f32 --reject_non_finite --mask m.npy --bias b.npy "
      "--weights w.npy --logsumexp l.npy --scores s.npy --score_stage masked --weight_query_rows 0,7 "
      "--average_weights_over_heads --request_id me --priority 3";
  ASSERT_EQ(Parse("--query q.npy --key k.npy --value v.npy " + line, options), "");
  const v1::AttentionOptions wire = ToAttentionOptions(options);
  const google::protobuf::Descriptor* descriptor = wire.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    if (field->name() == "mask" || field->name() == "bias") continue;  // files: options.mask and options.bias
    const bool set = field->is_repeated() ? wire.GetReflection()->FieldSize(wire, field) > 0
                                          : wire.GetReflection()->HasField(wire, field);
    EXPECT_TRUE(set) << field->name();
  }
  EXPECT_EQ(options.mask, "m.npy");
  EXPECT_EQ(options.bias, "b.npy");
  EXPECT_EQ(wire.scale(), -0.5f);
  EXPECT_EQ(wire.window_left(), -1);
  EXPECT_THAT(wire.query_offset(), ElementsAre(-1, 2));
  EXPECT_THAT(wire.key_lengths(), ElementsAre(3, 5));
  EXPECT_THAT(wire.sinks(), ElementsAre(-1, 2.5f));
  const v1::ResultSelection results = ToResultSelection(options);
  const google::protobuf::Descriptor* selection = results.GetDescriptor();
  for (int i = 0; i < selection->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = selection->field(i);
    const bool set = field->is_repeated() ? results.GetReflection()->FieldSize(results, field) > 0
                                          : results.GetReflection()->HasField(results, field);
    EXPECT_TRUE(set) << field->name();
  }
  EXPECT_EQ(options.request_id, "me");
  EXPECT_EQ(options.priority, 3);
}

TEST(InferOptions, Refusals) {
  const std::string files = kFiles;
  EXPECT_THAT(Refusal("--query q.npy"), HasSubstr("--key"));
  EXPECT_THAT(Refusal("--query q.npy --key k.npy --value v.npy"), HasSubstr("at least one of --output"));
  EXPECT_THAT(Refusal(files + "--weights o.npy"), HasSubstr("o.npy is named for two results"));
  EXPECT_THAT(Refusal(files + "--causal corner"), HasSubstr("'corner' is not one of none|top_left|bottom_right"));
  EXPECT_THAT(Refusal(files + "--key_lengths 3,x"), HasSubstr("x"));
  for (const char* list : {"--query_starts", "--key_starts", "--weight_query_rows", "--key_lengths", "--query_offset",
                           "--alibi_slopes", "--sinks"}) {
    EXPECT_THAT(Refusal(files + list + " 1,"), HasSubstr("'1,' has an empty element")) << list;
    EXPECT_THAT(Refusal(files + list + " 1,,2"), HasSubstr("'1,,2' has an empty element")) << list;
  }
  EXPECT_THAT(Refusal(files + "--key_lengths 99999999999999999999"), HasSubstr("at most 9223372036854775807"));
  EXPECT_THAT(Refusal(files + "--sinks 1e300"), HasSubstr("'1e300' is not a number"));
  EXPECT_THAT(Refusal(files + "--window_left 99999999999999999999"), HasSubstr("at most 9223372036854775807"));
  EXPECT_THAT(Refusal(files + "--priority 99999999999999999999"), HasSubstr("at most 2147483647"));
  EXPECT_THAT(Refusal(files + "--score_stage masked"), HasSubstr("requires --scores"));
  EXPECT_THAT(Refusal(files + "--verify_rows 3"), HasSubstr("requires --verify"));
  EXPECT_THAT(Refusal(files + "--verify --verify_rows -3"), HasSubstr("at least 0"));
  EXPECT_THAT(Refusal(files + "--weight_query_rows 3"), HasSubstr("--weight_query_rows needs --weights or --scores"));
  EXPECT_THAT(Refusal(files + "--scores s.npy --average_weights_over_heads"),
              HasSubstr("--average_weights_over_heads needs --weights"));
}

}  // namespace
}  // namespace attend::client
