#include "client/npz_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zip.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/temporary_folder.h"

namespace attend::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kElements[] = {1.5f, -2.0f, 0.0f, 3.25f, 1e-40f, 7.0f};

NamedArray Floats(const std::string& name) {
  return {.name = name, .shape = {2, 3}, .data = std::as_bytes(std::span(kElements))};
}

// Where fields of an entry lie in the archive's directory, from the entry's signature on: APPNOTE.TXT, 4.3.12.
constexpr size_t kFlags = 8, kMethod = 10, kChecksum = 16, kCompressedSize = 20, kSize = 24, kLocalHeader = 42;

// Overwrites a field of the first entry in the directory.
template <typename T>
void Patch(size_t field, T value, std::string& archive) {
  std::memcpy(archive.data() + archive.find("PK\x01\x02") + field, &value, sizeof(value));
}

class NpzFileTest : public ::testing::Test {
 protected:
  absl::Status Write(const std::string& name, const std::vector<NamedArray>& arrays) {
    auto file = PendingFile::Create(folder_.Path(name));
    if (!file.ok()) return file.status();
    if (absl::Status status = WriteNpz(arrays, *file); !status.ok()) return status;
    return file->Commit();
  }

  std::string Archive(const std::vector<NamedArray>& arrays) {
    EXPECT_TRUE(Write("made.npz", arrays).ok());
    return folder_.Contents("made.npz");
  }

  // An archive of one entry with these bytes, deflated.
  std::string Deflated(const std::string& name, const std::string& bytes) {
    zip_t* const archive = zip_open(folder_.Path("deflated.npz").c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    EXPECT_EQ(zip_file_add(archive, name.c_str(), source, 0), 0);
    EXPECT_EQ(zip_set_file_compression(archive, 0, ZIP_CM_DEFLATE, 9), 0);
    EXPECT_EQ(zip_close(archive), 0);
    return folder_.Contents("deflated.npz");
  }

  absl::StatusOr<Array> Read(const std::string& archive, const std::string& name = "query",
                             const NpyReadOptions& options = {}) {
    return ReadNpzFile(folder_.Store("x.npz", archive), name, options);
  }

  // What is said of array `query` of a bad archive; that must be one line that begins with the file.
  std::string Refusal(const std::string& archive) {
    const auto array = Read(archive);
    EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument) << array.status();
    const std::string message(array.status().message());
    EXPECT_THAT(message, AllOf(StartsWith(folder_.Path("x.npz") + ":"), testing::Not(HasSubstr("\n"))));
    return message;
  }

  TemporaryFolder folder_;
};

TEST_F(NpzFileTest, RoundTrip) {
  const uint16_t halves[] = {0x3c00, 0x4000};
  const NamedArray brain = {
      .name = "b/µ", .type = ArrayType::kBFloat16, .shape = {2}, .data = std::as_bytes(std::span(halves))};
  const NamedArray nothing = {.name = "nothing", .shape = {0, 7}, .data = {}};
  ASSERT_TRUE(Write("x.npz", {Floats("query"), brain, nothing}).ok());
  auto query = ReadNpzFile(folder_.Path("x.npz"), "query");
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->type, ArrayType::kFloat32);
  EXPECT_THAT(query->shape, ElementsAre(2, 3));
  ASSERT_EQ(query->bytes, static_cast<int64_t>(sizeof(kElements)));
  EXPECT_EQ(std::memcmp(query->data.get(), std::as_bytes(std::span(kElements)).data(), sizeof(kElements)), 0);
  auto read = ReadNpzFile(folder_.Path("x.npz"), "b/µ", {.two_byte_void_is_bfloat16 = true});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->type, ArrayType::kBFloat16);
  EXPECT_EQ(std::memcmp(read->data.get(), halves, sizeof(halves)), 0);
  EXPECT_THAT(ReadNpzFile(folder_.Path("x.npz"), "b/µ").status().message(), HasSubstr("--element_type bf16"));
  EXPECT_THAT(ReadNpzFile(folder_.Path("x.npz"), "nothing")->shape, ElementsAre(0, 7));
  EXPECT_THAT(folder_.Names(), ElementsAre("x.npz")) << "and nothing besides";
}

TEST_F(NpzFileTest, TheSameArraysGiveTheSameBytes) {
  const std::string first = Archive({Floats("query")});
  EXPECT_EQ(Archive({Floats("query")}), first);
}

TEST_F(NpzFileTest, AFileHasTheModeOfAnyOther) {
  folder_.Store("plain", "");
  ASSERT_TRUE(Write("x.npz", {Floats("query")}).ok());
  struct stat plain = {};
  struct stat archive = {};
  ASSERT_EQ(stat(folder_.Path("plain").c_str(), &plain), 0);
  ASSERT_EQ(stat(folder_.Path("x.npz").c_str(), &archive), 0);
  EXPECT_EQ(archive.st_mode, plain.st_mode);
}

TEST_F(NpzFileTest, TheLongestName) {
  const std::string name(kMaxNpzNameBytes, 'n');
  EXPECT_TRUE(Read(Archive({Floats(name)}), name).ok());
}

TEST_F(NpzFileTest, WhatFailsLeavesNothing) {
  ASSERT_NE(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Write("x.npz", {Floats("query")});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("x.npz: cannot be written: "));
  EXPECT_THAT(folder_.Names(), ElementsAre());
}

TEST_F(NpzFileTest, ReadsDeflatedArrays) {
  // More than is read as a header, so that elements come from two reads.
  const std::string elements(200'000, '\x01');
  const std::string npy = EncodeNpyHeader(ArrayType::kBool, {200'000}) + elements;
  auto array = Read(Deflated("query.npy", npy));
  ASSERT_TRUE(array.ok()) << array.status();
  ASSERT_EQ(array->bytes, 200'000);
  EXPECT_EQ(std::memcmp(array->data.get(), elements.data(), elements.size()), 0);
}

TEST_F(NpzFileTest, SaysWhichArraysThereAre) {
  const std::string archive = Archive({Floats("q"), Floats("k")});
  const absl::Status status = Read(archive).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("x.npz: holds 'q', 'k', and none named 'query'"));
  EXPECT_FALSE(Read(archive, "q.npy").ok()) << "the suffix is the format's, not the name's";
  std::vector<NamedArray> many;
  for (int i = 0; i < 9; ++i) many.push_back(Floats(absl::StrCat(std::string(1000, 'a'), i)));
  const absl::Status of_many = Read(Archive(many)).status();
  EXPECT_THAT(std::string(of_many.message()), HasSubstr(" and 3 more"));
  EXPECT_LT(of_many.message().size(), 600u);
}

TEST_F(NpzFileTest, ArchivesOfNothing) {
  const std::string end_of_directory = std::string("PK\x05\x06", 4) + std::string(18, '\0');
  EXPECT_THAT(std::string(Read(end_of_directory).status().message()), HasSubstr("holds no arrays at all"));
  EXPECT_THAT(std::string(Read(Deflated("readme.txt", "text")).status().message()),
              HasSubstr("holds no arrays at all"));
  EXPECT_FALSE(Read("").ok());
}

TEST_F(NpzFileTest, WhatIsNoArchive) {
  EXPECT_THAT(Refusal(EncodeNpyHeader(ArrayType::kFloat32, {2})), HasSubstr("it is no npz file"));
  EXPECT_EQ(ReadNpzFile(folder_.Path("absent.npz"), "query").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ReadNpzFile(folder_.Path(""), "query").status().message(), HasSubstr("is not a regular file"));
  EXPECT_THAT(Refusal(Deflated("query.npy", "text")), HasSubstr("x.npz:query: it is no npy file"));
}

// No cut of an archive crashes, and none is read as if it were whole.
TEST_F(NpzFileTest, TruncatedAnywhere) {
  const std::string archive = Archive({Floats("query")});
  for (size_t size = 1; size < archive.size(); ++size) EXPECT_FALSE(Read(archive.substr(0, size)).ok()) << size;
}

TEST_F(NpzFileTest, NamesThatComeTwice) {
  std::string archive = Archive({Floats("query"), Floats("other")});
  const size_t directory = archive.find("PK\x01\x02");
  archive.replace(archive.find("other", directory), 5, "query");
  EXPECT_THAT(Refusal(archive), HasSubstr("holds two arrays named 'query'"));
}

TEST_F(NpzFileTest, NamesLikePathsAreNames) {
  const std::string name = "../../query";
  auto array = Read(Archive({Floats(name)}), name);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(folder_.Names(), ElementsAre("made.npz", "x.npz"));
}

TEST_F(NpzFileTest, EncryptedAndStrangelyCompressed) {
  std::string archive = Archive({Floats("query")});
  Patch<uint16_t>(kFlags, 1, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("is encrypted"));
  archive = Archive({Floats("query")});
  Patch<uint16_t>(kMethod, ZIP_CM_LZMA, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("is compressed by method 14, must be stored (method 0) or deflated"));
}

TEST_F(NpzFileTest, SizesThatCannotBe) {
  std::string archive = Archive({Floats("query")});
  Patch<uint32_t>(kSize, 1 << 30, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("is damaged: its 152 bytes cannot become 1073741824"));
  Patch<uint32_t>(kCompressedSize, 1 << 30, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("is damaged: it takes 1073741824 bytes of a file of "));
  archive = Deflated("query.npy", EncodeNpyHeader(ArrayType::kBool, {100'000}) + std::string(100'000, '\0'));
  Patch<uint32_t>(kSize, 1 << 30, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("cannot become 1073741824"));
  Patch<uint32_t>(kSize, 1000, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("takes 100000 bytes, the file has 872 after its header"));
  archive = Archive({Floats("query")});
  Patch<uint32_t>(kLocalHeader, 1 << 20, archive);
  EXPECT_FALSE(Read(archive).ok());
}

// Compressed data that may well hold what it says is refused by the size alone: before anything is allocated.
TEST_F(NpzFileTest, BombsAreRefusedBySize) {
  const std::string bytes(4'000'000, 'x');
  std::string archive = Archive(
      {{.name = "query", .type = ArrayType::kBool, .shape = {4'000'000}, .data = std::as_bytes(std::span(bytes))}});
  Patch<uint16_t>(kMethod, ZIP_CM_DEFLATE, archive);
  Patch<uint32_t>(kSize, 3'000'000'000, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("is compressed and holds 3000000000 bytes, must be at most 2147483647"));
}

// The archive says less than is there: the rest is seen, and refused.
TEST_F(NpzFileTest, MoreThanTheArchiveSays) {
  const std::string header = EncodeNpyHeader(ArrayType::kBool, {1000});
  std::string archive = Deflated("query.npy", header + std::string(1001, '\0'));
  Patch<uint32_t>(kSize, static_cast<uint32_t>(header.size()) + 1000, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("x.npz:query: is damaged: "));
}

TEST_F(NpzFileTest, DamageIsSeen) {
  std::string archive = Archive({Floats("query")});
  archive[archive.find("PK\x01\x02") - 3] ^= 1;
  EXPECT_THAT(Refusal(archive), HasSubstr("x.npz:query: is damaged: CRC error"));
  archive = Archive({Floats("query")});
  Patch<uint32_t>(kChecksum, 1, archive);
  EXPECT_THAT(Refusal(archive), HasSubstr("x.npz:query: is damaged: CRC error"));
  archive = Deflated("query.npy", EncodeNpyHeader(ArrayType::kBool, {9}) + "123456789");
  archive.replace(archive.find("query.npy") + 20, 20, std::string(20, '\xff'));
  EXPECT_THAT(Refusal(archive), HasSubstr("x.npz:query: is damaged: "));
}

TEST_F(NpzFileTest, FortranOrderAndOtherTypes) {
  std::string npy = EncodeNpyHeader(ArrayType::kFloat32, {2, 3}) + std::string(24, '\0');
  npy.replace(npy.find("False"), 5, "True ");
  EXPECT_THAT(Refusal(Deflated("query.npy", npy)), HasSubstr("x.npz:query: the elements are in Fortran order"));
  npy = EncodeNpyHeader(ArrayType::kInt64, {3}) + std::string(24, '\0');
  npy.replace(npy.find("<i8"), 3, ">f8");
  EXPECT_THAT(Refusal(Deflated("query.npy", npy)), HasSubstr("(big-endian)"));
}

}  // namespace
}  // namespace attend::client
