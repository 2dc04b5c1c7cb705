// attend generate, infer and load as programs, against the real server: what a user sees, and what happens to a load
// test that is interrupted or whose server dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/server_test.h"
#include "tests/testing/child_process.h"
#include "tests/testing/server_process.h"

namespace attend::testing {
namespace {

using ::testing::HasSubstr;

ChildProcess::Options AttendCommand(const std::string& address, const std::string& line) {
  ChildProcess::Options options = {.command = {ClientProgram()}, .environment = {"ATTEND_ADDRESS=" + address}};
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) options.command.emplace_back(word);
  return options;
}

class LoadCommandWireTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    auto folder = TemporaryFolder::Create();
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
  }

  FinishedProgram Run(const std::string& line) {
    auto finished = RunProgram(AttendCommand(server().grpc_address(), line), absl::Seconds(120));
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *std::move(finished) : FinishedProgram{};
  }

  std::string Path(const std::string& name) const { return folder_->File(name); }

  nlohmann::json Json() const {
    const auto text = ReadFile(Path("load.json"));
    return nlohmann::json::parse(text.ok() ? *text : "{}");
  }

  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(LoadCommandWireTest, FilesThroughTheServer) {
  for (const char* name : {"q", "k", "v"}) {
    const std::string shape = *name == 'q' ? "2,8,60,64" : "2,2,100,64";
    const FinishedProgram made =
        Run(absl::StrCat("generate --seed 3 --shape ", shape, " --output ", Path(absl::StrCat(name, ".npy"))));
    ASSERT_EQ(made.exit.code, 0) << made.standard_error;
  }
  const std::string files = absl::StrCat("infer --query ", Path("q.npy"), " --key ", Path("k.npy"), " --value ",
                                         Path("v.npy"), " --output ", Path("o.npy"), " --verify --verify_rows 0 ");
  ASSERT_EQ(Run(absl::StrCat("generate --shape 8,60,100 --output ", Path("b.npy"))).exit.code, 0);
  const std::string bias = absl::StrCat("--bias ", Path("b.npy"));
  for (const std::string& options :
       {std::string(), std::string("--element_type bf16"), std::string("--element_type f16"),
        std::string("--causal top_left"), std::string("--causal bottom_right --key_lengths 100,0"),
        std::string("--scale -0.5 --key_lengths 1,99"), std::string("--softcap 2 --window_left 7 --window_right 0"),
        std::string("--query_offset -3,50 --causal top_left --alibi_slopes 1,0.5,0.25,0.1,0.05,0,-0.1,-0.2"),
        std::string("--sinks=-inf,0,1,2,3,4,5,90 --average_weights_over_heads"),
        std::string("--element_type bf16 --output_type f32"), std::string("--compute_type bf16"),
        absl::StrCat(bias, " --weight_query_rows 59,0,17"),
        absl::StrCat(bias, " --softcap 5 --reject_non_finite --causal top_left --score_stage masked --scores ",
                     Path("s.npy")),
        absl::StrCat(bias, " --softcap 5 --key_lengths 30,40 --score_stage softcapped --scores ", Path("s.npy"))}) {
    const FinishedProgram inferred =
        Run(absl::StrCat(files, options, " --weights ", Path("w.npy"), " --logsumexp ", Path("l.npy")));
    EXPECT_EQ(inferred.exit.code, 0) << options << ": " << inferred.standard_error;
    EXPECT_THAT(inferred.standard_output, HasSubstr("960 of 960 rows, nothing beyond rounding"));
  }
  const FinishedProgram refused = Run(absl::StrCat(files, "--key_lengths 1,101"));
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.standard_error, HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(refused.standard_error, HasSubstr("101"));
}

TEST_F(LoadCommandWireTest, RaggedFilesThroughTheServer) {
  for (const char* name : {"q", "k", "v"}) {
    const std::string shape = *name == 'q' ? "60,8,64" : "100,2,64";
    ASSERT_EQ(Run(absl::StrCat("generate --shape ", shape, " --output ", Path(absl::StrCat(name, ".npy")))).exit.code,
              0);
  }
  const FinishedProgram inferred = Run(absl::StrCat(
      "infer --layout thd --query_starts 0,1,1,40,60 --key_starts 0,30,50,50,100 --causal bottom_right --query ",
      Path("q.npy"), " --key ", Path("k.npy"), " --value ", Path("v.npy"), " --output ", Path("o.npy"), " --logsumexp ",
      Path("l.npy"), " --verify --verify_rows 0"));
  EXPECT_EQ(inferred.exit.code, 0) << inferred.standard_error;
  EXPECT_THAT(inferred.standard_output, HasSubstr("480 of 480 rows, nothing beyond rounding"));
}

TEST_F(LoadCommandWireTest, LoadIsMeasuredAndVerified) {
  const FinishedProgram load =
      Run(absl::StrCat("load --lengths 16,64,300 --count 12 --concurrency 3 --connections 2 --kv_heads 2 --weights "
                       "--causal bottom_right --window_left 40 --softcap 20 --verify --json ",
                       Path("load.json")));
  ASSERT_EQ(load.exit.code, 0) << load.standard_error;
  EXPECT_EQ(load.standard_error, "") << "no progress without a terminal";
  const nlohmann::json json = Json();
  ASSERT_EQ(json["lengths"].size(), 3u);
  for (const auto& length : json["lengths"]) {
    EXPECT_EQ(length["ok"], 12);
    EXPECT_EQ(length["verification"]["passed"], true) << length;
    EXPECT_GT(length["gflops"], 0.0);
    EXPECT_GE(length["latency_max_seconds"], length["latency_p50_seconds"]);
    EXPECT_LT(length["server_compute_mean_seconds"], length["latency_mean_seconds"]);
  }
}

TEST_F(LoadCommandWireTest, InterruptionReportsWhatWasMeasured) {
  auto load = ChildProcess::Start(AttendCommand(
      server().grpc_address(), "load --lengths 32,64 --duration 1h --warmup 0 --json " + Path("load.json")));
  ASSERT_TRUE(load.ok()) << load.status();
  const std::string answered = "attend_requests_total{method=\"Attend\",code=\"OK\"}";
  const double before = server().Metric(answered).value_or(0);
  ASSERT_TRUE(server().WaitForMetric(answered, [&](double calls) { return calls > before + 5; }).ok());
  (*load)->Signal(SIGINT);
  const auto ended = (*load)->Wait(absl::Seconds(60));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->signal, SIGINT);
  EXPECT_THAT((*load)->StandardOutput(), HasSubstr("Interrupted: the figures are those up to then."));
  const nlohmann::json json = Json();
  EXPECT_EQ(json["interrupted"], true);
  ASSERT_EQ(json["lengths"].size(), 1u);
  EXPECT_GT(json["lengths"][0]["ok"], 0);
  EXPECT_EQ(json["lengths"][0]["failed"], 0);
}

TEST_F(LoadCommandWireTest, InterruptionEndsItWhileItConnects) {
  // Takes connections and says nothing.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  auto load = ChildProcess::Start(AttendCommand(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                                                "load --lengths 32 --json " + Path("load.json")));
  ASSERT_TRUE(load.ok()) << load.status();
  const int connection = accept(listener, nullptr, nullptr);
  (*load)->Signal(SIGINT);
  const auto ended = (*load)->Wait(absl::Seconds(60));
  close(connection);
  close(listener);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->signal, SIGINT);
  EXPECT_EQ((*load)->StandardOutput(), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_->path())) << "nothing was measured, nothing is left";
}

TEST_F(LoadCommandWireTest, AServerThatDiesIsCountedAndEndsTheTest) {
  auto mortal = ServerProcess::Start({});
  ASSERT_TRUE(mortal.ok()) << mortal.status();
  auto load = ChildProcess::Start(
      AttendCommand((*mortal)->grpc_address(),
                    "load --lengths 16,32,48,64,80,96 --duration 4s --warmup 0 --json " + Path("load.json")));
  ASSERT_TRUE(load.ok()) << load.status();
  const std::string answered = "attend_requests_total{method=\"Attend\",code=\"OK\"}";
  ASSERT_TRUE((*mortal)->WaitForMetric(answered, [](double calls) { return calls > 5; }).ok());
  (*mortal)->process().Signal(SIGKILL);
  const auto ended = (*load)->Wait(absl::Seconds(60));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->code, 1);
  EXPECT_THAT((*load)->StandardError(), HasSubstr("no server at " + (*mortal)->grpc_address()));
  const nlohmann::json json = Json();
  ASSERT_GE(json["lengths"].size(), 2u);
  EXPECT_GT(json["lengths"][0]["ok"], 0);
  EXPECT_EQ(json["lengths"].back()["ok"], 0);
  EXPECT_GT(json["lengths"].back()["errors"]["UNAVAILABLE"], 0);
}

TEST_F(LoadCommandWireTest, NoServerIsOneLine) {
  auto finished = RunProgram(AttendCommand("127.0.0.1:1", "load --lengths 16"), absl::Seconds(60));
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->exit.code, 1);
  EXPECT_THAT(finished->standard_error, HasSubstr("attend: no server at 127.0.0.1:1: "));
  EXPECT_EQ(std::count(finished->standard_error.begin(), finished->standard_error.end(), '\n'), 1);
}

}  // namespace
}  // namespace attend::testing
