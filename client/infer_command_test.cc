// attend infer and attend generate as a user runs them, against a server of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/commands.h"
#include "client/fake_attention.h"
#include "client/fake_server.h"
#include "client/pending_file.h"
#include "client/temporary_folder.h"
#include "client/tensor_file.h"

namespace attend::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class InferCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { Serve(AnswerAttention); }

  void Serve(FakeServer::Handler handler) { server_ = std::make_unique<FakeServer>(std::move(handler)); }

  // Runs "attend <line>"; names of files of tensors are those of the test's folder.
  int Run(const std::string& line) {
    std::vector<std::string> words = {"attend"};
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      const bool tensors =
          absl::StrContains(word, ".npy") || absl::StrContains(word, ".npz") || absl::StrContains(word, ".safetensors");
      const bool file = tensors && word[0] != '/';
      words.push_back(file ? Path(std::string(word)) : std::string(word));
    }
    setenv("ATTEND_ADDRESS", server_->address().c_str(), 1);
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    Commands commands;
    AddInferCommand(commands);
    AddGenerateCommand(commands);
    CaptureStdout();
    CaptureStderr();
    const int code = commands.Run(static_cast<int>(arguments.size()), arguments.data());
    errors_ = GetCapturedStderr();
    output_ = GetCapturedStdout();
    return code;
  }

  void Generate(const std::string& name, const std::string& shape, const std::string& more = "") {
    ASSERT_EQ(Run("generate --output " + name + " --shape " + shape + " --seed 1 " + more), 0) << errors_;
  }

  absl::Status WriteBools(const std::string& name, std::vector<int64_t> shape, const std::vector<char>& elements) {
    auto file = PendingFile::Create(Path(name));
    if (!file.ok()) return file.status();
    const TensorInFile written = {.path = *ParseTensorPath(Path(name), "mask"),
                                  .tensor = {.data_type = v1::DATA_TYPE_BOOL,
                                             .shape = std::move(shape),
                                             .data = std::as_bytes(std::span<const char>(elements))}};
    if (absl::Status status = WriteTensors({&written, 1}, *file); !status.ok()) return status;
    return file->Commit();
  }

  std::string Path(const std::string& name) const { return folder_.Path(name); }
  std::vector<std::string> Names() const { return folder_.Names(); }

  absl::StatusOr<TensorView> Read(const std::string& name, v1::DataType type = v1::DATA_TYPE_UNSPECIFIED) const {
    return ReadTensorFile(*ParseTensorPath(Path(name), "output"), type);
  }

  std::vector<int64_t> ShapeOf(const std::string& name) const {
    auto tensor = Read(name);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return tensor.ok() ? tensor->shape : std::vector<int64_t>{-1};
  }

  TemporaryFolder folder_;
  std::unique_ptr<FakeServer> server_;
  std::string output_;
  std::string errors_;
};

TEST_F(InferCommandTest, WritesResultsAndASummary) {
  Generate("q.npy", "2,4,3,8");
  Generate("k.npy", "2,2,5,8");
  Generate("v.npy", "2,2,5,6");
  ASSERT_EQ(Run("infer --query q.npy --key k.npy --value v.npy --output o.npy --weights w.npy --logsumexp l.npy "
                "--causal bottom_right --verify --verify_rows 0"),
            0)
      << errors_;
  EXPECT_THAT(ShapeOf("o.npy"), ElementsAre(2, 4, 3, 6));
  EXPECT_THAT(ShapeOf("w.npy"), ElementsAre(2, 4, 3, 5));
  EXPECT_THAT(ShapeOf("l.npy"), ElementsAre(2, 4, 3));
  EXPECT_THAT(Names(), ElementsAre("k.npy", "l.npy", "o.npy", "q.npy", "v.npy", "w.npy"));
  EXPECT_THAT(output_, HasSubstr("[2, 4, 3, 6]"));
  EXPECT_THAT(output_, HasSubstr("compute 2 ms"));
  EXPECT_THAT(output_, HasSubstr("GFLOP/s"));
  EXPECT_THAT(output_, HasSubstr("verified  24 of 24 rows, nothing beyond rounding"));
  EXPECT_THAT(errors_, IsEmpty());
}

TEST_F(InferCommandTest, ResultsHaveTheRankOfTheQuery) {
  Generate("q2.npy", "3,8");
  Generate("k2.npy", "5,8");
  ASSERT_EQ(Run("infer --query q2.npy --key k2.npy --value k2.npy --output o.npy --weights w.npy --logsumexp l.npy"), 0)
      << errors_;
  EXPECT_THAT(ShapeOf("o.npy"), ElementsAre(3, 8));
  EXPECT_THAT(ShapeOf("w.npy"), ElementsAre(3, 5));
  EXPECT_THAT(ShapeOf("l.npy"), ElementsAre(3));
  Generate("q3.npy", "4,3,8");
  ASSERT_EQ(Run("infer --query q3.npy --key k2.npy --value k2.npy --output o.npy --weights w.npy --logsumexp l.npy"), 0)
      << errors_;
  EXPECT_THAT(ShapeOf("o.npy"), ElementsAre(4, 3, 8));
  EXPECT_THAT(ShapeOf("w.npy"), ElementsAre(4, 3, 5));
  EXPECT_THAT(ShapeOf("l.npy"), ElementsAre(4, 3));
  // In bnhd two axes are heads and dim; the weights keep their heads.
  ASSERT_EQ(Run("infer --layout bnhd --query q2.npy --key k2.npy --value k2.npy --output o.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("k2.npy: has 5 heads, must be a divisor of the 3"));
  ASSERT_EQ(Run("infer --layout bnhd --query q2.npy --key q2.npy --value q2.npy --output o.npy --weights w.npy"), 0)
      << errors_;
  EXPECT_THAT(ShapeOf("o.npy"), ElementsAre(3, 8));
  EXPECT_THAT(ShapeOf("w.npy"), ElementsAre(3, 1, 1));
}

TEST_F(InferCommandTest, EveryOptionIsVerified) {
  Generate("q.npy", "2,4,3,8");
  Generate("k.npy", "2,2,5,8");
  Generate("v.npy", "2,2,5,6");
  Generate("b.npy", "3,5");
  ASSERT_TRUE(WriteBools("m.npy", {2, 1, 1, 5}, {1, 0, 1, 1, 1, 1, 1, 0, 1, 1}).ok());
  ASSERT_EQ(Run("infer --query q.npy --key k.npy --value v.npy --weights w.npy --scores s.npy --score_stage masked "
                "--logsumexp l.npy --weight_query_rows 2,0 --average_weights_over_heads --softcap 3 --query_offset 1,2 "
                "--causal bottom_right --window_left 2 --window_right 1 --key_lengths 5,4 --mask m.npy --bias b.npy "
                "--alibi_slopes 0.5,0.25,0.125,0 --sinks=-inf,1,2,0 --scale 0.7 --output_type f32 --reject_non_finite "
                "--verify --verify_rows 0"),
            0)
      << errors_;
  EXPECT_THAT(output_, HasSubstr("verified  24 of 24 rows, nothing beyond rounding"));
  EXPECT_THAT(ShapeOf("w.npy"), ElementsAre(2, 2, 5));
  EXPECT_THAT(ShapeOf("s.npy"), ElementsAre(2, 4, 2, 5));
  EXPECT_THAT(ShapeOf("l.npy"), ElementsAre(2, 4, 3));
}

TEST_F(InferCommandTest, RaggedBatchesAreVerified) {
  Generate("q.npy", "5,4,8");
  Generate("k.npy", "7,2,8");
  ASSERT_EQ(Run("infer --layout thd --query q.npy --key k.npy --value k.npy --query_starts 0,2,5 --key_starts 0,0,7 "
                "--causal top_left --output o.npy --logsumexp l.npy --verify"),
            0)
      << errors_;
  EXPECT_THAT(output_, HasSubstr("verified  20 of 20 rows"));
  EXPECT_THAT(ShapeOf("o.npy"), ElementsAre(5, 4, 8));
  EXPECT_THAT(ShapeOf("l.npy"), ElementsAre(4, 5));
  EXPECT_EQ(Run("infer --layout thd --query q.npy --key k.npy --value q.npy --query_starts 0,5 --key_starts 0,7 "
                "--output p.npy"),
            1);
  EXPECT_THAT(errors_, HasSubstr("q.npy: shape is [5, 4, 8], must be [7, 2, value_dim], to fit "));
}

TEST_F(InferCommandTest, MasksAreOfBoolsAndBiasesOfFloats) {
  Generate("x.npy", "4,8");
  ASSERT_TRUE(WriteBools("m.npy", {1, 4}, {1, 0, 1, 1}).ok());
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --mask x.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("x.npy: holds f32, must be bool"));
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --bias m.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("m.npy: holds bool, must be f32"));
  EXPECT_EQ(server_->calls(), 0) << "the server was asked in vain";
}

TEST_F(InferCommandTest, RoundsToTheElementType) {
  Generate("x.npy", "4,8");
  ASSERT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --element_type bf16 --verify"), 0)
      << errors_;
  auto output = Read("o.npy", v1::DATA_TYPE_BFLOAT16);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->data_type, v1::DATA_TYPE_BFLOAT16);
  Generate("half.npy", "4,8", "--element_type f16");
  EXPECT_EQ(Run("infer --query half.npy --key x.npy --value x.npy --output p.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("x.npy: holds f32, must be f16 like "));
  ASSERT_EQ(Run("infer --query half.npy --key x.npy --value x.npy --output p.npy --element_type f16"), 0) << errors_;
}

TEST_F(InferCommandTest, WhatDoesNotFitIsOneLineThatNamesTheFile) {
  Generate("q.npy", "2,4,3,8");
  Generate("k.npy", "2,2,5,7");
  EXPECT_EQ(Run("infer --query q.npy --key k.npy --value k.npy --output o.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("k.npy: shape is [2, 2, 5, 7], must be [2, kv_heads, key_length, 8], to fit "));
  EXPECT_EQ(std::count(errors_.begin(), errors_.end(), '\n'), 1);
  std::ofstream(Path("text.npy")) << "no array";
  EXPECT_EQ(Run("infer --query q.npy --key text.npy --value k.npy --output o.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("text.npy: it is no npy file"));
  EXPECT_EQ(Run("infer --query absent.npy --key k.npy --value k.npy --output o.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("absent.npy: cannot be read: No such file"));
  Generate("flat.npy", "8");
  EXPECT_EQ(Run("infer --query flat.npy --key k.npy --value k.npy --output o.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("flat.npy: shape is [8], must have 2, 3 or 4 axes"));
  EXPECT_EQ(server_->calls(), 0) << "the server was asked in vain";
  EXPECT_THAT(Names(), ElementsAre("flat.npy", "k.npy", "q.npy", "text.npy"));
}

TEST_F(InferCommandTest, FailuresLeaveNothing) {
  Generate("x.npy", "4,8");
  Serve([](const FakeCall&) { return FailWith(grpc::StatusCode::UNIMPLEMENTED, "options.99 is not known"); });
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --softcap 3"), 1);
  EXPECT_THAT(errors_, HasSubstr("options.99 is not known"));
  Serve(AnswerWrongly);
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --verify"), 1);
  EXPECT_THAT(errors_, HasSubstr("the answer is wrong, nothing was written: 4 of 4 rows: output[0, 0, 0, 0] is"));
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output /no/such/folder/o.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("/no/such/folder/o.npy: cannot be made: No such file"));
  EXPECT_THAT(Names(), ElementsAre("x.npy"));
}

TEST_F(InferCommandTest, AResultThatIsMissingIsAFailure) {
  Generate("x.npy", "4,8");
  Serve([](const FakeCall& call) {
    v1::AttendRequest request;
    request.ParseFromString(MessageBytes(call.request));
    request.mutable_results()->clear_weights();
    return AnswerWith(ReferenceAnswer(request));
  });
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --weights w.npy"), 1);
  EXPECT_THAT(errors_, HasSubstr("has no weights"));
  EXPECT_THAT(Names(), ElementsAre("x.npy"));
}

TEST_F(InferCommandTest, OptionsReachTheServer) {
  Generate("x.npy", "4,8");
  v1::AttendRequest seen;
  Serve([&seen](const FakeCall& call) {
    seen.ParseFromString(MessageBytes(call.request));
    return AnswerAttention(call);
  });
  ASSERT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.npy --scale -0.25 --key_lengths 3 "
                "--priority 2 --request_id me"),
            0)
      << errors_;
  EXPECT_EQ(seen.options().scale(), -0.25f);
  EXPECT_THAT(seen.options().key_lengths(), ElementsAre(3));
  EXPECT_EQ(seen.priority(), 2);
  EXPECT_EQ(seen.request_id(), "me");
  EXPECT_THAT(seen.query().shape(), ElementsAre(1, 1, 4, 8));
}

TEST_F(InferCommandTest, TensorsByNameInOneFile) {
  for (const std::string extension : {".npz", ".safetensors"}) {
    Generate("q" + extension + ":query", "2,4,3,8");
    Generate("k" + extension + ":layers.0.key", "2,2,5,8");
    Generate("b" + extension + ":bias", "3,5");
    ASSERT_TRUE(WriteBools("m" + extension, {1, 5}, {1, 0, 1, 1, 1}).ok());
    const std::string key = "k" + extension + ":layers.0.key";
    ASSERT_EQ(Run(absl::StrCat("infer --query q", extension, " --key ", key, " --value ", key, " --mask m", extension,
                               " --bias b", extension, " --output r", extension, " --weights r", extension,
                               " --scores r", extension, ":raw --logsumexp l.npy --verify --verify_rows 0")),
              0)
        << errors_;
    EXPECT_THAT(output_, HasSubstr(Path("r" + extension) + ":raw"));
    EXPECT_THAT(output_, HasSubstr("verified  24 of 24 rows, nothing beyond rounding"));
    EXPECT_THAT(ShapeOf("r" + extension), ElementsAre(2, 4, 3, 8));
    EXPECT_THAT(ShapeOf("r" + extension + ":weights"), ElementsAre(2, 4, 3, 5));
    EXPECT_THAT(ShapeOf("r" + extension + ":raw"), ElementsAre(2, 4, 3, 5));
    EXPECT_THAT(ShapeOf("l.npy"), ElementsAre(2, 4, 3));
    EXPECT_EQ(Read("r" + extension + ":logsumexp").status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(InferCommandTest, NamesThatAreNotThereAreOneLine) {
  Generate("q.npz:other", "4,8");
  EXPECT_EQ(Run("infer --query q.npz --key q.npz:other --value q.npz:other --output o.npz"), 1);
  EXPECT_THAT(errors_, HasSubstr("q.npz: holds 'other', and none named 'query' (FILE:NAME takes another)\n"));
  EXPECT_EQ(Run("infer --query q.npz:other --key q.npz:other --value q.npz:other --output o.npz: --weights o.npz"), 2);
  EXPECT_THAT(errors_, HasSubstr("none is named"));
  EXPECT_EQ(Run("infer --query q.npz:other --key q.npz:other --value q.npz:other --output o.npz:x --weights o.npz:x"),
            2);
  EXPECT_THAT(errors_, HasSubstr("o.npz:x is named for two results"));
  EXPECT_EQ(Run("infer --query q.npz:other --key q.npz:other --value q.npz:other --output o.npy --weights ./o.npy"), 2);
  EXPECT_THAT(errors_, HasSubstr("o.npy is named for two results"));
  EXPECT_EQ(Run("generate --output g.safetensors --shape 3"), 2);
  EXPECT_THAT(errors_, HasSubstr("g.safetensors:NAME"));
  EXPECT_EQ(server_->calls(), 0) << "the server was asked in vain";
  EXPECT_THAT(Names(), ElementsAre("q.npz"));
}

TEST_F(InferCommandTest, ABadFileLeavesTheOldResults) {
  Generate("x.npy", "4,8");
  folder_.Store("o.safetensors", "what was there");
  Serve(AnswerWrongly);
  EXPECT_EQ(Run("infer --query x.npy --key x.npy --value x.npy --output o.safetensors --verify"), 1);
  folder_.Store("bad.npz", "PK\x03\x04 no archive");
  EXPECT_EQ(Run("infer --query bad.npz --key x.npy --value x.npy --output o.safetensors"), 1);
  EXPECT_THAT(errors_, HasSubstr("bad.npz: it is no npz file"));
  EXPECT_EQ(std::count(errors_.begin(), errors_.end(), '\n'), 1);
  EXPECT_EQ(folder_.Contents("o.safetensors"), "what was there");
  EXPECT_THAT(Names(), ElementsAre("bad.npz", "o.safetensors", "x.npy"));
}

TEST_F(InferCommandTest, GenerateMakesTheSameFileAgain) {
  Generate("a.npy", "3,4", "--element_type bf16");
  Generate("b.npy", "3,4", "--element_type bf16");
  std::ifstream a(Path("a.npy"));
  std::ifstream b(Path("b.npy"));
  EXPECT_TRUE(std::equal(std::istreambuf_iterator<char>(a), {}, std::istreambuf_iterator<char>(b)));
  EXPECT_THAT(output_, HasSubstr("b.npy: bf16 [3, 4], seed 1"));
  EXPECT_EQ(Run("generate --output c.npy --shape 3,-4"), 2);
  EXPECT_EQ(Run("generate --output c.npy --shape 99999999999,99999999999"), 1);
  EXPECT_THAT(errors_, HasSubstr("overflows 64 bits"));
  EXPECT_THAT(Names(), Not(::testing::Contains("c.npy")));
}

}  // namespace
}  // namespace attend::client
