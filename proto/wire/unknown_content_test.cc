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

TEST(FindUnknownFieldTest, FindsNoneWhereThereIsNone) { EXPECT_FALSE(FindUnknownField(Request()).has_value()); }

TEST(FindUnknownFieldTest, FindsOneAtEveryDepth) {
  v1::AttendRequest top = Request();
  AddUnknown(top, 99);
  EXPECT_EQ(FindUnknownField(top)->message, "");
  EXPECT_EQ(FindUnknownField(top)->number, 99);

  v1::AttendRequest tensor = Request();
  AddUnknown(*tensor.mutable_query(), 4);
  EXPECT_EQ(FindUnknownField(tensor)->message, "query");
  EXPECT_EQ(FindUnknownField(tensor)->number, 4);

  v1::AttendRequest mask = Request();
  AddUnknown(*mask.mutable_options()->mutable_mask(), 5);
  EXPECT_EQ(FindUnknownField(mask)->message, "options.mask");

  v1::AttendResponse response;
  AddUnknown(*response.mutable_timings()->mutable_pack(), 3);
  EXPECT_EQ(FindUnknownField(response)->message, "timings.pack");
}

TEST(FindUnknownFieldTest, FindsWhatTheParserKept) {
  v1::AttendRequest request;
  ASSERT_TRUE(request.ParseFromString(std::string("\x08\x05", 2)));  // query, a message, as a varint
  EXPECT_EQ(FindUnknownField(request)->number, 1);
}

TEST(FindUnknownEnumValueTest, FindsNoneWhereThereIsNone) { EXPECT_FALSE(FindUnknownEnumValue(Request()).has_value()); }

TEST(FindUnknownEnumValueTest, FindsOneAtEveryDepth) {
  v1::AttendRequest tensor = Request();
  tensor.mutable_query()->set_data_type(static_cast<v1::DataType>(6));
  EXPECT_EQ(FindUnknownEnumValue(tensor)->field, "query.data_type");
  EXPECT_EQ(FindUnknownEnumValue(tensor)->number, 6);

  v1::AttendRequest layout = Request();
  layout.mutable_options()->set_layout(static_cast<v1::Layout>(-1));
  EXPECT_EQ(FindUnknownEnumValue(layout)->field, "options.layout");
  EXPECT_EQ(FindUnknownEnumValue(layout)->number, -1);
  EXPECT_EQ(FindUnknownEnumValue(layout)->names,
            "LAYOUT_UNSPECIFIED (0), LAYOUT_BHND (1), LAYOUT_BNHD (2), LAYOUT_THD (3)");

  v1::AttendRequest mask = Request();
  mask.mutable_options()->mutable_mask()->set_data_type(static_cast<v1::DataType>(1000));
  EXPECT_EQ(FindUnknownEnumValue(mask)->field, "options.mask.data_type");
}

TEST(FindUnknownEnumValueTest, LooksIntoRepeatedFields) {
  v1::GetServerInfoResponse response;
  response.add_native_types(v1::DATA_TYPE_FLOAT32);
  response.add_native_types(static_cast<v1::DataType>(77));
  EXPECT_EQ(FindUnknownEnumValue(response)->field, "native_types[1]");
}

}  // namespace
}  // namespace attend::wire
