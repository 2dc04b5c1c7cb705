#include "client/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A file's first bytes around the dictionary `text`, as NumPy would lay them out.
std::string Preamble(const std::string& text, int major = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(major);
  bytes += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return bytes + text;
}

absl::StatusOr<NpyHeader> Parse(const std::string& text, int64_t data_bytes, int major = 1,
                                const NpyReadOptions& options = {}) {
  const std::string start = Preamble(text, major);
  return ParseNpyHeader(start, static_cast<int64_t>(start.size()) + data_bytes, options);
}

std::string Dictionary(const std::string& descr, const std::string& shape) {
  return absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }\n");
}

TEST(NpyHeader, ReadsWhatNumPyWrites) {
  // numpy.save of zeros((2, 3), 'f4'), to the byte.
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(58, ' ') + "\n";
  auto header = Parse(text, 24);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, ArrayType::kFloat32);
  EXPECT_THAT(header->shape, ElementsAre(2, 3));
  EXPECT_EQ(header->data_offset, 128);
  EXPECT_EQ(header->data_bytes, 24);
}

TEST(NpyHeader, ReadsEveryVersion) {
  for (const int major : {1, 2, 3}) {
    auto header = Parse(Dictionary("<f2", "(5,)"), 10, major);
    ASSERT_TRUE(header.ok()) << major << ": " << header.status();
    EXPECT_EQ(header->type, ArrayType::kFloat16);
    EXPECT_THAT(header->shape, ElementsAre(5));
  }
  for (const int major : {0, 4, 255}) {
    EXPECT_THAT(Parse(Dictionary("<f2", "(5,)"), 10, major).status().message(), HasSubstr("must be 1.0 to 3.0"));
  }
}

TEST(NpyHeader, ReadsEveryType) {
  const std::tuple<const char*, ArrayType, int64_t> cases[] = {{"<f4", ArrayType::kFloat32, 4},
                                                               {"<f2", ArrayType::kFloat16, 2},
                                                               {"bfloat16", ArrayType::kBFloat16, 2},
                                                               {"|b1", ArrayType::kBool, 1},
                                                               {"<i8", ArrayType::kInt64, 8}};
  for (const auto& [descr, type, bytes] : cases) {
    auto header = Parse(Dictionary(descr, "(3, 1)"), 3 * bytes);
    ASSERT_TRUE(header.ok()) << descr << ": " << header.status();
    EXPECT_EQ(header->type, type);
    EXPECT_EQ(ArrayElementBytes(type), bytes);
  }
}

TEST(NpyHeader, TwoByteVoidIsBFloat16OnlyIfSaidSo) {
  for (const char* descr : {"<V2", "|V2"}) {
    EXPECT_THAT(Parse(Dictionary(descr, "(3,)"), 6).status().message(), HasSubstr("--element_type bf16"));
    auto header = Parse(Dictionary(descr, "(3,)"), 6, 1, {.two_byte_void_is_bfloat16 = true});
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type, ArrayType::kBFloat16);
  }
}

TEST(NpyHeader, AcceptsTheFreedomsOfTheFormat) {
  for (const char* text : {
           "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
           "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",
           "{ 'descr' :'<f4','fortran_order':False,'shape':( 2 ,3, ) }  \n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
       }) {
    auto header = Parse(text, 24);
    ASSERT_TRUE(header.ok()) << text << ": " << header.status();
    EXPECT_THAT(header->shape, ElementsAre(2, 3));
  }
  EXPECT_THAT(Parse(Dictionary("<f4", "()"), 4)->shape, IsEmpty());
  EXPECT_THAT(Parse(Dictionary("<f4", "(0, 9223372036854775807)"), 0)->shape, ElementsAre(0, INT64_MAX));
  // One axis is in both orders at once, and NumPy says so.
  EXPECT_TRUE(Parse("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8).ok());
}

TEST(NpyHeader, RefusesOtherElements) {
  const std::pair<const char*, const char*> cases[] = {{"<f8", "'<f8' (float64: astype"},
                                                       {">f4", "'>f4' (big-endian)"},
                                                       {"|O", "'|O' (Python objects)"},
                                                       {"", "''"},
                                                       {"<c8", "'<c8'"},
                                                       {"<V3", "'<V3'"},
                                                       {"<i4", "'<i4'"},
                                                       {"f4", "'f4'"}};
  for (const auto& [descr, named] : cases) {
    const absl::Status status = Parse(Dictionary(descr, "(2,)"), 16).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(named));
    EXPECT_THAT(status.message(), HasSubstr("'<f4' (float32)"));
  }
  EXPECT_THAT(Parse("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8).status().message(),
              HasSubstr("records"));
  EXPECT_THAT(Parse("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16).status().message(),
              HasSubstr("Fortran order"));
}

TEST(NpyHeader, RefusesHostileShapes) {
  const std::pair<const char*, const char*> cases[] = {
      {"(4294967296, 4294967296)", "overflows 64 bits"},
      {"(9223372036854775807,)", "overflows 64 bits"},
      {"(2305843009213693951, 1)", "overflows 64 bits"},  // fits only without its header
      {"(9223372036854775808,)", "must fit 64 bits"},
      {"(99999999999999999999999999999999999999999999999999999999999999,)", "must fit 64 bits"},
      {"(-1,)", "must be at least 0"},
      {"(-9223372036854775808, -1)", "must be at least 0"},
      {"(2", "malformed"},
      {"(2, 3", "malformed"},
      {"((2), 3)", "malformed"},
      {"2)", "malformed"},
      {"(2)", "malformed"},
      {"(2,,3)", "malformed"},
      {"(,)", "malformed"},
      {"(2 3)", "malformed"},
      {"[2, 3]", "malformed"},
      {"(2.0,)", "malformed"},
      {"(0x2,)", "malformed"},
      {"(-,)", "malformed"},
      {"(+2,)", "malformed"},
      {"None", "malformed"},
  };
  for (const auto& [shape, expected] : cases) {
    const absl::Status status = Parse(Dictionary("<f4", shape), 24).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << shape;
    EXPECT_THAT(status.message(), HasSubstr(expected)) << shape;
  }
  std::string many;
  for (int i = 0; i <= kMaxArrayRank; ++i) many += "1, ";
  EXPECT_THAT(Parse(Dictionary("<f4", "(" + many + ")"), 4).status().message(), HasSubstr("more than 64 axes"));
}

TEST(NpyHeader, RefusesMalformedDictionaries) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  ASSERT_TRUE(Parse(good, 24).ok());
  const std::pair<std::string, const char*> cases[] = {
      {"", "no opening brace"},
      {std::string(100, ' '), "no opening brace"},
      {"{}", "'descr' is missing"},
      {"{'descr': '<f4', 'shape': (2, 3)}", "'fortran_order' is missing"},
      {"{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "'descr' comes twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'shape': (9, 9)}", "'shape' comes twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", "unknown key 'x'"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}", "neither True nor False"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}", "no comma or closing brace"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3)}", "no colon"},
      {"{'descr: <f4, fortran_order: False}", "no closing quote"},
      {"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2, 3)}", "backslash"},
      {good + "garbage", "more after the closing brace"},
      {good + good, "more after the closing brace"},
      {good + std::string(1, '\0'), "more after the closing brace"},
      {std::string("{'descr': '<f4\0', 'fortran_order': False, 'shape': (2, 3)}", 58), "'<f4\\x00'"},
      {std::string(1, '\0') + good, "no opening brace"},
      {"dict(descr='<f4')", "no opening brace"},
      {std::string(60000, '{'), "malformed"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(60000, '('), "malformed"},
  };
  for (const auto& [text, expected] : cases) {
    const absl::Status status = Parse(text, 24).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 100);
    EXPECT_THAT(status.message(), HasSubstr(expected)) << text.substr(0, 100);
    EXPECT_LT(status.message().size(), 400u) << "a message must not repeat the whole file";
  }
}

TEST(NpyHeader, RefusesFilesOfAnotherSize) {
  const std::string text = Dictionary("<f4", "(2, 3)");
  EXPECT_TRUE(Parse(text, 24).ok());
  EXPECT_THAT(Parse(text, 23).status().message(), HasSubstr("takes 24 bytes, the file has 23 after its header"));
  EXPECT_THAT(Parse(text, 25).status().message(), HasSubstr("takes 24 bytes, the file has 25 after its header"));
  EXPECT_THAT(Parse(text, 0).status().message(), HasSubstr("the file has 0"));
}

TEST(NpyHeader, RefusesTruncatedHeaders) {
  const std::string whole = Preamble(Dictionary("<f4", "(2, 3)")) + std::string(24, 'x');
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string start = whole.substr(0, size);
    EXPECT_FALSE(ParseNpyHeader(start, static_cast<int64_t>(size)).ok()) << size;
  }
  std::string beyond = whole;
  beyond[8] = '\xff';
  beyond[9] = '\xff';
  EXPECT_THAT(ParseNpyHeader(beyond, static_cast<int64_t>(beyond.size())).status().message(),
              HasSubstr("ends at byte 65545"));
}

TEST(NpyHeader, RefusesHugeHeaders) {
  // A header of 4 GiB less a byte in a file that is really (sparsely) that long: only its start is at hand.
  std::string start = Preamble("{", 2);
  for (int i = 8; i < 12; ++i) start[static_cast<size_t>(i)] = '\xff';
  start.resize(kMaxNpyHeaderBytes, ' ');
  const absl::Status status = ParseNpyHeader(start, int64_t{1} << 40).status();
  EXPECT_THAT(status.message(), HasSubstr("takes 4294967307 bytes, must be at most 65536"));
}

TEST(NpyHeader, RefusesOtherFormats) {
  EXPECT_THAT(ParseNpyHeader("PK\x03\x04 and so on", 100).status().message(), HasSubstr("zip"));
  EXPECT_THAT(ParseNpyHeader("{\"a\": 1}", 8).status().message(), HasSubstr("no npy file"));
  EXPECT_THAT(ParseNpyHeader("", 0).status().message(), HasSubstr("no npy file"));
}

TEST(NpyHeader, WhatIsEncodedIsRead) {
  for (const ArrayType type :
       {ArrayType::kFloat32, ArrayType::kFloat16, ArrayType::kBFloat16, ArrayType::kBool, ArrayType::kInt64}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
             {}, {0}, {7}, {2, 3}, {1, 2, 3, 4}, std::vector<int64_t>(kMaxArrayRank, 1)}) {
      const std::string start = EncodeNpyHeader(type, shape);
      EXPECT_EQ(start.size() % 64, 0u);
      EXPECT_EQ(start.back(), '\n');
      int64_t bytes = ArrayElementBytes(type);
      for (const int64_t length : shape) bytes *= length;
      auto header =
          ParseNpyHeader(start, static_cast<int64_t>(start.size()) + bytes, {.two_byte_void_is_bfloat16 = true});
      ASSERT_TRUE(header.ok()) << ShapeText(shape) << ": " << header.status();
      EXPECT_EQ(header->type, type);
      EXPECT_EQ(header->shape, shape);
      EXPECT_EQ(header->data_bytes, bytes);
    }
  }
  EXPECT_THAT(EncodeNpyHeader(ArrayType::kBFloat16, {2, 3}),
              HasSubstr("{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }"));
}

// Whatever is done to a good header: no crash, and what is accepted fits the file.
TEST(NpyHeader, MutationsNeverBreakIt) {
  const uint64_t seed = std::random_device()();
  RecordProperty("seed", absl::StrCat(seed));
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const std::string good = EncodeNpyHeader(ArrayType::kFloat32, {2, 3, 4});
  constexpr int64_t kDataBytes = 96;
  constexpr absl::string_view kTelling("'\"{}(),:[]\\ -0123456789TFL\0<|>", 30);
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    std::string start = good;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % start.size();
      const char byte = random() % 2 ? kTelling[random() % kTelling.size()] : static_cast<char>(random());
      if (random() % 3 == 0) {
        start.erase(at, 1 + random() % 3);
      } else if (random() % 3 == 0) {
        start.insert(at, 1, byte);
      } else {
        start[at] = byte;
      }
    }
    const int64_t file_bytes = static_cast<int64_t>(start.size()) + kDataBytes;
    auto header = ParseNpyHeader(start, file_bytes, {.two_byte_void_is_bfloat16 = true});
    if (!header.ok()) continue;
    ++accepted;
    ASSERT_EQ(header->data_offset + header->data_bytes, file_bytes);
    ASSERT_LE(header->data_offset, static_cast<int64_t>(start.size()));
    ASSERT_LE(header->shape.size(), static_cast<size_t>(kMaxArrayRank));
  }
  EXPECT_GT(accepted, 0) << "edits of the padding leave the header good";
}

}  // namespace
}  // namespace attend::client
