// attend load as a user runs it, against a server of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/commands.h"
#include "client/fake_attention.h"
#include "client/fake_server.h"

namespace attend::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

// Small problems, a handful of calls.
constexpr char kSmall[] = "load --lengths 4,8 --heads 2 --head_dim 4 --warmup 0 ";

class LoadCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "load_command_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Serve(AnswerAttention);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Serve(FakeServer::Handler handler) {
    server_ = std::make_unique<FakeServer>(std::move(handler));
    address_ = server_->address();
  }

  int Run(const std::string& line) {
    std::vector<std::string> words = absl::StrSplit("attend " + line, ' ', absl::SkipEmpty());
    words.insert(words.end(), {"--address", address_});
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    Commands commands;
    AddLoadCommand(commands);
    CaptureStdout();
    CaptureStderr();
    const int code = commands.Run(static_cast<int>(arguments.size()), arguments.data());
    errors_ = GetCapturedStderr();
    output_ = GetCapturedStdout();
    return code;
  }

  std::string Path(const std::string& name) const { return folder_ / name; }

  nlohmann::json Json() const {
    std::ifstream stream(Path("load.json"));
    return nlohmann::json::parse(stream);
  }

  fs::path folder_;
  std::unique_ptr<FakeServer> server_;
  std::string address_;
  std::string output_;
  std::string errors_;
};

TEST_F(LoadCommandTest, MeasuresEachLengthAndWritesReports) {
  ASSERT_EQ(Run(std::string(kSmall) +
                "--count 20 --concurrency 3 --connections 2 --kv_heads 1 --causal top_left "
                "--verify --json " +
                Path("load.json") + " --csv " + Path("load.csv")),
            0)
      << errors_;
  EXPECT_EQ(errors_, "");
  EXPECT_THAT(output_, HasSubstr("2 heads on 1, dim 4, f32, causal top_left"));
  EXPECT_THAT(output_, HasSubstr("attend-server 1.2.3, abacus, 3 compute threads"));
  EXPECT_THAT(output_, HasSubstr("length 8: verified: 16 of 16 rows"));
  const nlohmann::json json = Json();
  ASSERT_EQ(json["lengths"].size(), 2u);
  for (const auto& length : json["lengths"]) {
    EXPECT_EQ(length["ok"], 20);
    EXPECT_EQ(length["failed"], 0);
    EXPECT_GT(length["requests_per_second"], 0.0);
    EXPECT_GT(length["megabytes_per_second"], 0.0);
    EXPECT_EQ(length["server_compute_mean_seconds"], 0.002);
    EXPECT_EQ(length["verification"]["passed"], true);
  }
  EXPECT_TRUE(fs::exists(Path("load.csv")));
  EXPECT_EQ(server_->calls(), 1 + 40);
}

TEST_F(LoadCommandTest, UsesEveryConnection) {
  std::mutex mutex;
  std::set<std::string> peers;
  Serve([&](const FakeCall& call) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (call.method == "/attend.v1.AttentionService/Attend") peers.insert(call.peer);
    return AnswerAttention(call);
  });
  ASSERT_EQ(Run(std::string(kSmall) + "--count 6 --connections 3"), 0) << errors_;
  EXPECT_EQ(peers.size(), 3u);
}

TEST_F(LoadCommandTest, OpenLoop) {
  ASSERT_EQ(Run(std::string(kSmall) + "--count 5 --rate 1000 --json " + Path("load.json")), 0) << errors_;
  EXPECT_EQ(Json()["lengths"][0]["ok"], 5);
  EXPECT_THAT(output_, HasSubstr("1000 calls/s on 1 connection"));
}

TEST_F(LoadCommandTest, AMixIsMeasuredAfterItsLengthsAlone) {
  ASSERT_EQ(Run("load --mix 4:3,8:1 --heads 2 --head_dim 4 --warmup 0 --count 40 --verify --json " + Path("load.json")),
            0)
      << errors_;
  EXPECT_THAT(output_, HasSubstr("Beside each other, in one load:"));
  EXPECT_THAT(output_, HasSubstr("mix, length 8: verified: 16 of 16 rows"));
  const nlohmann::json json = Json();
  ASSERT_EQ(json["lengths"].size(), 2u);
  EXPECT_EQ(json["lengths"][0]["ok"], 40);
  const nlohmann::json& mix = json["mix"]["lengths"];
  ASSERT_EQ(mix.size(), 2u);
  EXPECT_EQ(mix[0]["key_length"], 4);
  EXPECT_EQ(mix[0]["ok"], 30);
  EXPECT_EQ(mix[1]["key_length"], 8);
  EXPECT_EQ(mix[1]["ok"], 10);
  EXPECT_EQ(mix[1]["verification"]["passed"], true);
  EXPECT_EQ(server_->calls(), 1 + 3 * 40);
}

TEST_F(LoadCommandTest, AnOpenLoopGivesALengthAloneItsShareOfTheRate) {
  ASSERT_EQ(
      Run("load --mix 4:9,8:1 --heads 2 --head_dim 4 --warmup 0 --rate 1000 --count 20 --json " + Path("load.json")), 0)
      << errors_;
  // Twenty calls at 900 and at 100 a second, however fast the answers are.
  EXPECT_GE(Json()["lengths"][0]["elapsed_seconds"].get<double>(), 20.0 / 900 - 1e-6);
  EXPECT_GE(Json()["lengths"][1]["elapsed_seconds"].get<double>(), 20.0 / 100 - 1e-6);
}

TEST_F(LoadCommandTest, FailuresAreCountedAndNotRetried) {
  std::atomic<int> calls = 0;
  Serve([&calls](const FakeCall& call) {
    if (call.method != "/attend.v1.AttentionService/Attend") return AnswerAttention(call);
    FakeAnswer refusal = FailWith(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
    refusal.trailers = {{"grpc-retry-pushback-ms", "1"}};
    return ++calls % 2 == 0 ? refusal : AnswerAttention(call);
  });
  ASSERT_EQ(Run(std::string(kSmall) + "--count 10 --json " + Path("load.json")), 0) << errors_;
  EXPECT_EQ(calls, 20);
  EXPECT_EQ(Json()["lengths"][0]["ok"], 5);
  EXPECT_EQ(Json()["lengths"][0]["errors"]["RESOURCE_EXHAUSTED"], 5);
  EXPECT_THAT(output_, HasSubstr("length 4: 5 x RESOURCE_EXHAUSTED: "));
}

TEST_F(LoadCommandTest, NoGoodAnswerIsAFailure) {
  Serve([](const FakeCall& call) {
    if (call.method != "/attend.v1.AttentionService/Attend") return AnswerAttention(call);
    return FailWith(grpc::StatusCode::UNIMPLEMENTED, "not yet");
  });
  EXPECT_EQ(Run(std::string(kSmall) + "--count 2"), 1);
  EXPECT_THAT(output_, HasSubstr("UNIMPLEMENTED 2"));
  EXPECT_THAT(errors_, HasSubstr("no call of length 4 succeeded"));
}

TEST_F(LoadCommandTest, WrongAnswersAreFoundOut) {
  Serve(AnswerWrongly);
  EXPECT_EQ(Run(std::string(kSmall) + "--count 2 --verify"), 1);
  EXPECT_THAT(output_, HasSubstr("length 4: WRONG: 8 of 8 rows: output[0, 0, 0, 0] is"));
  EXPECT_THAT(errors_, HasSubstr("wrong answers at length 4"));
  // Bits that change from answer to answer are wrong too, whichever are right.
  std::atomic<int> calls = 0;
  Serve([&calls](const FakeCall& call) { return ++calls == 5 ? AnswerWrongly(call) : AnswerAttention(call); });
  EXPECT_EQ(Run(std::string(kSmall) + "--count 10 --verify"), 1);
  EXPECT_THAT(output_, HasSubstr("1 of 10 answers have other bits than the first"));
}

TEST_F(LoadCommandTest, WhatWasMeasuredBeforeAFailureIsReported) {
  EXPECT_EQ(Run("load --lengths 4,999999999999999999 --heads 2 --head_dim 4 --count 3 --json " + Path("load.json")), 1);
  EXPECT_THAT(errors_, HasSubstr("overflows 64 bits"));
  ASSERT_EQ(Json()["lengths"].size(), 1u);
  EXPECT_EQ(Json()["lengths"][0]["ok"], 3);
}

TEST_F(LoadCommandTest, NothingMeasuredIsAFailure) {
  EXPECT_EQ(Run("load --lengths 4 --heads 2 --head_dim 4 --warmup 0 --duration 1ns"), 1);
  EXPECT_THAT(errors_, HasSubstr("no call of length 4 was sent"));
}

TEST_F(LoadCommandTest, NoServerIsOneLine) {
  server_.reset();
  EXPECT_EQ(Run(std::string(kSmall) + "--count 2"), 1);
  EXPECT_EQ(output_, "");
  EXPECT_THAT(errors_, HasSubstr("no server at " + address_));
  EXPECT_EQ(std::count(errors_.begin(), errors_.end(), '\n'), 1);
}

TEST_F(LoadCommandTest, ReportsThatCannotBeWrittenAreNoticedBeforeTheWork) {
  EXPECT_EQ(Run(std::string(kSmall) + "--count 2 --json /no/such/folder/load.json"), 1);
  EXPECT_THAT(errors_, HasSubstr("/no/such/folder/load.json"));
  EXPECT_EQ(server_->calls(), 0);
}

}  // namespace
}  // namespace attend::client
