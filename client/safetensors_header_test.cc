#include "client/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTwo[] = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                        R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}  )";

std::string Refusal(absl::string_view json, int64_t data_bytes = 16) {
  const auto entries = ParseSafetensorsHeader(json, data_bytes);
  EXPECT_EQ(entries.status().code(), absl::StatusCode::kInvalidArgument) << json;
  EXPECT_LT(entries.status().message().size(), 300u);
  return std::string(entries.status().message());
}

// A header of one tensor named t.
std::string One(absl::string_view dtype, absl::string_view shape, absl::string_view offsets) {
  return absl::StrCat(R"({"t":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets, "}}");
}

TEST(SafetensorsHeader, ReadsTensorsInAnyOrder) {
  const auto entries = ParseSafetensorsHeader(kTwo, 16);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 2u);
  const SafetensorsEntry& b = entries->front();
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.type, ArrayType::kBFloat16);
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.begin, 4);
  EXPECT_EQ(b.end, 16);
  EXPECT_THAT(entries->back().shape, IsEmpty());
}

TEST(SafetensorsHeader, ReadsEveryType) {
  const std::pair<const char*, ArrayType> types[] = {{"F32", ArrayType::kFloat32},
                                                     {"F16", ArrayType::kFloat16},
                                                     {"BF16", ArrayType::kBFloat16},
                                                     {"BOOL", ArrayType::kBool},
                                                     {"I64", ArrayType::kInt64}};
  for (const auto& [dtype, type] : types) {
    const int64_t bytes = 3 * ArrayElementBytes(type);
    const auto entries = ParseSafetensorsHeader(One(dtype, "[3]", absl::StrCat("[0,", bytes, "]")), bytes);
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_EQ(entries->front().type, type);
  }
}

// Files of models hold types that are none of ours beside those that are.
TEST(SafetensorsHeader, OtherTypesHaveTheirPlace) {
  const auto entries = ParseSafetensorsHeader(One("F8_E4M3", "[16]", "[0,16]"), 16);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->front().type, std::nullopt);
  EXPECT_EQ(entries->front().dtype, "F8_E4M3");
}

TEST(SafetensorsHeader, NoTensorsAtAll) {
  EXPECT_THAT(*ParseSafetensorsHeader("{}", 0), IsEmpty());
  EXPECT_THAT(*ParseSafetensorsHeader(R"({"__metadata__":{}})", 0), IsEmpty());
  EXPECT_THAT(Refusal("{}", 1), HasSubstr("the tensors end at byte 0 of the data, which has 1"));
}

TEST(SafetensorsHeader, PlacesThatDoNotFit) {
  const auto two = [](absl::string_view first, absl::string_view second) {
    return absl::StrCat(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":)", first,
                        R"(},"b":{"dtype":"U8","shape":[1],"data_offsets":)", second, "}}");
  };
  EXPECT_TRUE(ParseSafetensorsHeader(two("[8,16]", "[0,8]"), 16).ok());
  EXPECT_TRUE(ParseSafetensorsHeader(two("[0,0]", "[0,16]"), 16).ok()) << "a tensor of no elements";
  EXPECT_THAT(Refusal(two("[0,8]", "[7,16]")), HasSubstr("tensor 'b' begins at byte 7 of the data, must begin at 8"));
  EXPECT_THAT(Refusal(two("[0,16]", "[0,16]")), HasSubstr("begins at byte 0 of the data, must begin at 16"));
  EXPECT_THAT(Refusal(two("[0,4]", "[5,16]")), HasSubstr("begins at byte 5 of the data, must begin at 4"));
  EXPECT_THAT(Refusal(two("[1,8]", "[8,16]")), HasSubstr("tensor 'a' begins at byte 1 of the data, must begin at 0"));
  EXPECT_THAT(Refusal(two("[0,8]", "[8,15]")), HasSubstr("the tensors end at byte 15 of the data, which has 16"));
  EXPECT_THAT(Refusal(two("[0,8]", "[8,17]")), HasSubstr("tensor 'b' is at bytes 8 to 17 of the data, which has 16"));
  EXPECT_THAT(Refusal(two("[8,0]", "[8,16]")), HasSubstr("tensor 'a' is at bytes 8 to 0 of the data"));
  EXPECT_THAT(Refusal(two("[0,9223372036854775807]", "[8,16]")), HasSubstr("of the data, which has 16"));
}

TEST(SafetensorsHeader, SizesThatDoNotFit) {
  EXPECT_THAT(Refusal(One("F32", "[3]", "[0,16]")),
              HasSubstr("tensor 't' has shape [3] of F32, which takes 12 bytes, and data_offsets of 16"));
  EXPECT_THAT(Refusal(One("F16", "[4294967296,4294967296]", "[0,16]")), HasSubstr("which overflows 64 bits"));
  EXPECT_TRUE(ParseSafetensorsHeader(One("F32", "[4294967296,4294967296,0]", "[0,0]"), 0).ok());
  EXPECT_THAT(Refusal(One("F32", "[-1]", "[0,16]")), HasSubstr("shape of tensor 't' has a negative number"));
  EXPECT_THAT(Refusal(One("F32", "[9223372036854775808]", "[0,16]")), HasSubstr("must be less than 2^63"));
  EXPECT_THAT(Refusal(One("F32", "[99999999999999999999]", "[0,16]")), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(Refusal(One("F32", "[4.0]", "[0,16]")), HasSubstr("a number that is not whole"));
  std::string ones = "1";
  for (int i = 0; i < kMaxArrayRank; ++i) ones += ",1";
  EXPECT_THAT(Refusal(One("F32", "[" + ones + "]", "[0,4]"), 4), HasSubstr("has more than 64 numbers"));
}

TEST(SafetensorsHeader, WhatIsNoSuchJson) {
  EXPECT_THAT(Refusal(""), HasSubstr("must be {"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("must be {"));
  EXPECT_THAT(Refusal("{"), HasSubstr("no JSON from byte"));
  EXPECT_THAT(Refusal("{} x"), HasSubstr("no JSON from byte"));
  EXPECT_THAT(Refusal("{}{}"), HasSubstr("no JSON from byte"));
  EXPECT_THAT(Refusal("{\"\xff\":{}}"), HasSubstr("no JSON from byte"));
  EXPECT_THAT(Refusal(std::string("{}\0\0", 4)), HasSubstr("it has a zero byte"));
  EXPECT_THAT(Refusal(R"({"t":null})"), HasSubstr("tensor 't' has null"));
  EXPECT_THAT(Refusal(R"({"t":true})"), HasSubstr("tensor 't' has a truth value"));
  EXPECT_THAT(Refusal(R"({"t":3})"), HasSubstr("tensor 't' has a number"));
  EXPECT_THAT(Refusal(R"({"t":"text"})"), HasSubstr("tensor 't' has text"));
  EXPECT_THAT(Refusal(R"({"t":[]})"), HasSubstr("tensor 't' has a list"));
  EXPECT_THAT(Refusal(R"({"t":{"shape":{}}})"), HasSubstr("shape of tensor 't' has an object"));
  EXPECT_THAT(Refusal(R"({"t":{"shape":[[1]]}})"), HasSubstr("shape of tensor 't' has a list"));
  EXPECT_THAT(Refusal(R"({"t":{"shape":[{}]}})"), HasSubstr("shape of tensor 't' has an object"));
  EXPECT_THAT(Refusal(R"({"t":{"shape":["1"]}})"), HasSubstr("shape of tensor 't' has text"));
  EXPECT_THAT(Refusal(R"({"t":{"dtype":[]}})"), HasSubstr("dtype of tensor 't' has a list"));
  EXPECT_THAT(Refusal(R"({"t":{"dtype":1}})"), HasSubstr("dtype of tensor 't' has a number"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":{}}})"), HasSubstr("__metadata__ has an object"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":1}})"), HasSubstr("__metadata__ has a number"));
  EXPECT_THAT(Refusal(R"({"__metadata__":[]})"), HasSubstr("has a list"));
}

TEST(SafetensorsHeader, FieldsThatAreMissingStrangeOrThereTwice) {
  EXPECT_THAT(Refusal(R"({"t":{}})"), HasSubstr("tensor 't' lacks dtype, shape or data_offsets"));
  EXPECT_THAT(Refusal(R"({"t":{"dtype":"F32","shape":[4]}})"), HasSubstr("lacks"));
  EXPECT_THAT(Refusal(R"({"t":{"size":3}})"), HasSubstr("tensor 't' has unknown key 'size'"));
  EXPECT_THAT(Refusal(R"({"t":{"dtype":"F32","dtype":"F16"}})"), HasSubstr("tensor 't' has dtype twice"));
  EXPECT_THAT(Refusal(One("F32", "[4]", "[0]")), HasSubstr("tensor 't' has not two data_offsets"));
  EXPECT_THAT(Refusal(One("F32", "[4]", "[0,8,16]")), HasSubstr("data_offsets of tensor 't' has more than 2 numbers"));
  const std::string t = R"("t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})";
  EXPECT_THAT(Refusal(absl::StrCat("{", t, ",", t, "}")), HasSubstr("it names 't' twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("it names '__metadata__' twice"));
}

// Nesting costs nothing: it is refused where it begins.
TEST(SafetensorsHeader, DeepNesting) {
  EXPECT_THAT(Refusal("{\"t\":" + std::string(1'000'000, '[')), HasSubstr("tensor 't' has a list"));
}

TEST(SafetensorsHeader, LengthsBeyondTheFile) {
  const auto length = [](uint64_t bytes) {
    std::string start;
    for (int i = 0; i < 8; ++i) start.push_back(static_cast<char>(bytes >> (8 * i)));
    return start;
  };
  EXPECT_EQ(*SafetensorsHeaderBytes(length(100), 108), 100);
  EXPECT_THAT(SafetensorsHeaderBytes(length(101), 108).status().message(),
              HasSubstr("its header has 101 bytes, the file has 100 for it"));
  EXPECT_FALSE(SafetensorsHeaderBytes(length(~uint64_t{0}), 108).ok());
  EXPECT_FALSE(SafetensorsHeaderBytes(length(uint64_t{1} << 63), 108).ok());
  EXPECT_THAT(SafetensorsHeaderBytes(length(kMaxSafetensorsHeaderBytes + 1), int64_t{1} << 40).status().message(),
              HasSubstr("takes 16777217 bytes, must be at most 16777216"));
  EXPECT_TRUE(SafetensorsHeaderBytes(length(kMaxSafetensorsHeaderBytes), int64_t{1} << 40).ok());
  EXPECT_THAT(SafetensorsHeaderBytes("1234567", 7).status().message(), HasSubstr("it has 7 bytes"));
  EXPECT_FALSE(SafetensorsHeaderBytes("", 0).ok());
}

TEST(SafetensorsHeader, WhatIsWrittenIsReadAgain) {
  const float elements[] = {1, 2, 3};
  const char truth[] = {0, 1};
  const std::vector<NamedArray> arrays = {
      {.name = "out\"put\n", .shape = {1, 3}, .data = std::as_bytes(std::span(elements))},
      {.name = "mask", .type = ArrayType::kBool, .shape = {2}, .data = std::as_bytes(std::span(truth))},
      {.name = "none", .shape = {0}, .data = {}}};
  const std::string header = EncodeSafetensorsHeader(arrays);
  EXPECT_EQ(header.size() % 8, 0u);
  const auto bytes = SafetensorsHeaderBytes(header, static_cast<int64_t>(header.size()) + 14);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, static_cast<int64_t>(header.size()) - 8);
  const auto entries = ParseSafetensorsHeader(header.substr(8), 14);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ(entries->at(0).name, "out\"put\n");
  EXPECT_THAT(entries->at(0).shape, ElementsAre(1, 3));
  EXPECT_EQ(entries->at(1).begin, 12);
  EXPECT_EQ(entries->at(1).type, ArrayType::kBool);
  EXPECT_EQ(entries->at(2).end, 14);
}

}  // namespace
}  // namespace attend::client
