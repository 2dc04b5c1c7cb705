#include "proto/wire/unknown_content.h"

#include <gtest/gtest.h>

#include "attend/v1/attention.pb.h"

namespace attend::wire {
namespace {

void AddUnknown(google::protobuf::Message& message, int number) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(number, 1);
}

v1::AttendRequest Request() {
  v1::AttendRequest request;
  request.mutable_query()->set_data_type(v1::DATA_TYPE_FLOAT32);
  request.mutable_options()->mutable_mask()->set_data_type(v1::DATA_TYPE_BOOL);
  request.mutable_results()->set_scores(v1::SCORE_STAGE_SCALED);
  return request;
}

UnknownField FindField(const google::protobuf::Message& message) {
  const UnknownContent found = FindUnknownContent(message);
  const auto* field = std::get_if<UnknownField>(&found);
  return field == nullptr ? UnknownField{"(none found)", 0} : *field;
}

UnknownEnumValue FindEnumValue(const google::protobuf::Message& message) {
  const UnknownContent found = FindUnknownContent(message);
  const auto* value = std::get_if<UnknownEnumValue>(&found);
  return value == nullptr ? UnknownEnumValue{"(none found)", 0, ""} : *value;
}

TEST(FindUnknownContentTest, FindsNoneWhereThereIsNone) {
  EXPECT_TRUE(std::holds_alternative<std::monostate>(FindUnknownContent(Request())));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(FindUnknownContent(v1::AttendRequest())));
}

TEST(FindUnknownContentTest, FindsAFieldAtEveryDepth) {
  v1::AttendRequest top = Request();
  AddUnknown(top, 99);
  EXPECT_EQ(FindField(top).message, "");
  EXPECT_EQ(FindField(top).number, 99);

  v1::AttendRequest tensor = Request();
  AddUnknown(*tensor.mutable_query(), 4);
  EXPECT_EQ(FindField(tensor).message, "query");
  EXPECT_EQ(FindField(tensor).number, 4);

  v1::AttendRequest mask = Request();
  AddUnknown(*mask.mutable_options()->mutable_mask(), 5);
  EXPECT_EQ(FindField(mask).message, "options.mask");

  v1::AttendResponse response;
  AddUnknown(*response.mutable_timings()->mutable_pack(), 3);
  EXPECT_EQ(FindField(response).message, "timings.pack");
}

TEST(FindUnknownContentTest, FindsWhatTheParserKept) {
  v1::AttendRequest request;
  ASSERT_TRUE(request.ParseFromString(std::string("\x08\x05", 2)));  // query, a message, as a varint
  EXPECT_EQ(FindField(request).number, 1);
}

TEST(FindUnknownContentTest, FindsAnEnumValueAtEveryDepth) {
  v1::AttendRequest tensor = Request();
  tensor.mutable_query()->set_data_type(static_cast<v1::DataType>(6));
  EXPECT_EQ(FindEnumValue(tensor).field, "query.data_type");
  EXPECT_EQ(FindEnumValue(tensor).number, 6);

  v1::AttendRequest layout = Request();
  layout.mutable_options()->set_layout(static_cast<v1::Layout>(-1));
  EXPECT_EQ(FindEnumValue(layout).field, "options.layout");
  EXPECT_EQ(FindEnumValue(layout).number, -1);
  EXPECT_EQ(FindEnumValue(layout).names, "LAYOUT_UNSPECIFIED (0), LAYOUT_BHND (1), LAYOUT_BNHD (2), LAYOUT_THD (3)");

  v1::AttendRequest mask = Request();
  mask.mutable_options()->mutable_mask()->set_data_type(static_cast<v1::DataType>(1000));
  EXPECT_EQ(FindEnumValue(mask).field, "options.mask.data_type");
}

TEST(FindUnknownContentTest, LooksIntoRepeatedFields) {
  v1::GetServerInfoResponse response;
  response.add_native_types(v1::DATA_TYPE_FLOAT32);
  response.add_native_types(static_cast<v1::DataType>(77));
  EXPECT_EQ(FindEnumValue(response).field, "native_types[1]");
}

}  // namespace
}  // namespace attend::wire
