#include "proto/wire/split_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "attend/v1/attention.pb.h"
#include "proto/wire/attend_messages.h"
#include "proto/wire/split_agreement.h"

namespace attend::wire {
namespace {

using ::testing::HasSubstr;

std::string Hex(absl::string_view hex) { return absl::HexStringToBytes(hex); }

std::string Contents(const BulkBytes& bytes) {
  std::string contents(static_cast<size_t>(bytes.size()), '\0');
  bytes.CopyTo(contents.data());
  return contents;
}

v1::AttendRequest FullRequest() {
  v1::AttendRequest request;
  const auto fill = [](v1::Tensor& tensor, const std::string& data) {
    tensor.set_data_type(v1::DATA_TYPE_FLOAT32);
    for (const int64_t length : {1, 300, 5, 2}) tensor.add_shape(length);
    tensor.set_data(data);
  };
  fill(*request.mutable_query(), std::string(150, 'q'));
  fill(*request.mutable_key(), std::string(40, 'k'));
  fill(*request.mutable_value(), "v");
  v1::AttentionOptions& options = *request.mutable_options();
  options.set_scale(-0.5F);
  options.add_key_lengths(-1);
  options.add_key_lengths(70000);
  fill(*options.mutable_mask(), std::string(20, 'm'));
  fill(*options.mutable_bias(), std::string(30, 'b'));
  request.mutable_results()->set_weights(true);
  request.set_request_id("id");
  request.set_priority(7);
  return request;
}

absl::StatusOr<SplitParts> Split(absl::string_view bytes, int64_t max_small_bytes = kMaxSmallBytes) {
  return SplitMessage(SlicesOf(bytes, 3), AttendRequestBulkFields(), max_small_bytes);
}

TEST(SplitMessageTest, LeavesBulkOutOfTheSmallMessage) {
  const auto parts = Split(FullRequest().SerializeAsString());
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(Contents(parts->bulk[kQueryData]), std::string(150, 'q'));
  EXPECT_EQ(Contents(parts->bulk[kKeyData]), std::string(40, 'k'));
  EXPECT_EQ(Contents(parts->bulk[kValueData]), "v");
  EXPECT_EQ(Contents(parts->bulk[kMaskData]), std::string(20, 'm'));
  EXPECT_EQ(Contents(parts->bulk[kBiasData]), std::string(30, 'b'));
  v1::AttendRequest expected = FullRequest();
  for (v1::Tensor* tensor : {expected.mutable_query(), expected.mutable_key(), expected.mutable_value(),
                             expected.mutable_options()->mutable_mask(), expected.mutable_options()->mutable_bias()}) {
    tensor->clear_data();
  }
  EXPECT_EQ(parts->small, expected.SerializeAsString());
}

TEST(SplitMessageTest, AgreesWithTheParserWhereverTheSlicesAreCut) {
  const std::string bytes = FullRequest().SerializeAsString();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::vector<grpc::Slice> slices = {grpc::Slice(bytes.substr(0, cut)), grpc::Slice(bytes.substr(cut))};
    ASSERT_EQ(SplitDisagreement(bytes, slices), "") << "cut at " << cut;
  }
  for (size_t size = 1; size <= bytes.size(); ++size) {
    ASSERT_EQ(SplitDisagreement(bytes, SlicesOf(bytes, size)), "") << "slices of " << size;
  }
}

TEST(SplitMessageTest, AgreesWithTheParserWhereverTheMessageIsCutOff) {
  const std::string bytes = FullRequest().SerializeAsString();
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::string prefix = bytes.substr(0, length);
    ASSERT_EQ(SplitDisagreement(prefix, SlicesOf(prefix, 7)), "") << "length " << length;
  }
}

TEST(SplitMessageTest, SkipsEmptySlices) {
  const std::string bytes = FullRequest().SerializeAsString();
  const std::vector<grpc::Slice> slices = {grpc::Slice(), grpc::Slice(bytes.substr(0, 5)), grpc::Slice(),
                                           grpc::Slice(), grpc::Slice(bytes.substr(5)),    grpc::Slice()};
  EXPECT_EQ(SplitDisagreement(bytes, slices), "");
}

TEST(SplitMessageTest, TheLastOccurrenceOfABulkFieldWins) {
  // query { data: "aa" data: "b" }
  const auto twice =
      Split(Hex("0a071a026161"
                "1a0162"));
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(Contents(twice->bulk[kQueryData]), "b");
  // query { data: "aa" data: "" }
  const auto emptied =
      Split(Hex("0a061a026161"
                "1a00"));
  ASSERT_TRUE(emptied.ok()) << emptied.status();
  EXPECT_TRUE(emptied->bulk[kQueryData].empty());
}

TEST(SplitMessageTest, OccurrencesOfAMessageFieldAreMerged) {
  // query { data: "aa" shape: 5 } query { shape: 6 }
  const std::string bytes =
      Hex("0a06"
          "1a026161"
          "1005"
          "0a02"
          "1006");
  const auto parts = Split(bytes);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(Contents(parts->bulk[kQueryData]), "aa");
  v1::AttendRequest request;
  ASSERT_TRUE(request.ParseFromString(parts->small));
  EXPECT_THAT(request.query().shape(), testing::ElementsAre(5, 6));
  EXPECT_EQ(SplitDisagreement(bytes, SlicesOf(bytes, 2)), "");
}

struct Case {
  const char* name;
  const char* hex;
};

TEST(SplitMessageTest, AcceptsUnusualButLegalBytesAsTheParserDoes) {
  for (const Case& c : {
           Case{"padded length of query",
                "0a8400"
                "1a026161"},
           Case{"padded length of data", "0a051a82006161"},
           Case{"padded tag",
                "8a0004"
                "1a026161"},
           Case{"data as a varint is an unknown field", "0a021805"},
           Case{"query as a varint is an unknown field", "0805"},
           Case{"query as a group is an unknown field",
                "0b"
                "1a0161"
                "0c"},
           Case{"groups within groups",
                "a306"
                "ab06"
                "0805"
                "ac06"
                "a406"},
           Case{"fixed32 and fixed64 unknown fields",
                "fd0601020304"
                "f9060102030405060708"},
           Case{"unknown bytes field inside mask",
                "2206"
                "5a04"
                "a2060161"},
           Case{"ten-byte varint", "38ffffffffffffffffff01"},
       }) {
    const std::string bytes = Hex(c.hex);
    EXPECT_TRUE(Split(bytes).ok()) << c.name << ": " << Split(bytes).status();
    EXPECT_EQ(SplitDisagreement(bytes, SlicesOf(bytes, 1)), "") << c.name;
  }
}

TEST(SplitMessageTest, RefusesMalformedBytesAsTheParserDoes) {
  for (const Case& c : {
           Case{"tag cut off", "8a"},
           Case{"length cut off", "0a82"},
           Case{"length missing", "0a"},
           Case{"length beyond the message",
                "0a05"
                "1a026161"},
           Case{"data beyond its tensor",
                "0a04"
                "1a03616161"},
           Case{"huge length", "0affffffff0f"},
           Case{"length of 2^63",
                "0a808080808080808080801"
                "0"},
           Case{"varint of eleven bytes", "38ffffffffffffffffffff01"},
           Case{"varint cut off by its message",
                "0a01"
                "08"
                "05"},
           Case{"field number 0", "0005"},
           Case{"field number 0 inside a tensor",
                "0a02"
                "0205"},
           Case{"wire type 6", "0e05"},
           Case{"wire type 7", "0f05"},
           Case{"end of a group that did not start", "0c"},
           Case{"group with another group's end",
                "a306"
                "ac06"},
           Case{"group that does not end",
                "a306"
                "0805"},
           Case{"group that ends outside its message",
                "0a02"
                "a306"
                "a406"},
           Case{"fixed32 cut off", "fd06010203"},
           Case{"fixed64 cut off", "f90601020304050607"},
       }) {
    const std::string bytes = Hex(c.hex);
    EXPECT_TRUE(absl::IsInvalidArgument(Split(bytes).status())) << c.name << ": " << Split(bytes).status();
    EXPECT_THAT(std::string(Split(bytes).status().message()), HasSubstr("not a message: at byte ")) << c.name;
    EXPECT_EQ(SplitDisagreement(bytes, SlicesOf(bytes, 1)), "") << c.name;
  }
}

TEST(SplitMessageTest, DeepGroupsTakeNoStack) {
  constexpr int kDepth = 300'000;
  std::string bytes(kDepth, '\x0b');
  bytes.append(kDepth, '\x0c');
  ASSERT_TRUE(Split(bytes).ok());
  EXPECT_EQ(SplitDisagreement(bytes, SlicesOf(bytes, 4096)), "");  // both refuse: the parser has a limit of depth
}

TEST(SplitMessageTest, BoundsWhatIsNotBulk) {
  v1::AttendRequest request = FullRequest();
  request.mutable_query()->set_data(std::string(100'000, 'q'));
  const std::string bytes = request.SerializeAsString();
  const auto whole = Split(bytes);
  ASSERT_TRUE(whole.ok()) << whole.status();
  auto small = static_cast<int64_t>(bytes.size());
  for (const BulkBytes& bulk : whole->bulk) small -= bulk.size();
  EXPECT_TRUE(Split(bytes, small).ok());
  const absl::Status status = Split(bytes, small - 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(SplitMessageTest, CountsWhatLaterOccurrencesReplace) {
  std::string inside;
  for (int i = 0; i < 1000; ++i) inside += Hex("1a0161");  // data: "a"
  const std::string bytes = Hex("0ab817") + inside;
  ASSERT_EQ(inside.size(), 3000U);
  EXPECT_TRUE(Split(bytes, 2003).ok()) << Split(bytes, 2003).status();
  EXPECT_TRUE(absl::IsResourceExhausted(Split(bytes, 2002).status()));
}

TEST(SplitMessageTest, AnInvalidBufferIsTheEmptyMessage) {
  const auto parts = SplitMessage(grpc::ByteBuffer(), AttendRequestBulkFields());
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->small, "");
}

TEST(SplitAttendRequestTest, RefusesWhatOnlyTheParserFindsWrong) {
  const std::string not_utf8 = Hex("3201ff");  // request_id
  const grpc::Slice slice(not_utf8);
  EXPECT_TRUE(absl::IsInvalidArgument(SplitAttendRequest(grpc::ByteBuffer(&slice, 1)).status()));
}

}  // namespace
}  // namespace attend::wire
