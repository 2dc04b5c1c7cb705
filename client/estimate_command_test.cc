// attend estimate, with a server of the test's own and without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "attend/v1/attention.pb.h"
#include "client/command_line_run.h"
#include "client/fake_server.h"

namespace attend::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kNoServer[] = "unix:/nowhere/attend.sock";

CommandLineRun RunEstimate(const std::string& address, const std::string& line) {
  std::vector<std::string> words = {"estimate", "--address", address};
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) words.emplace_back(word);
  return RunCommandLine(AddEstimateCommand, words);
}

nlohmann::json Json(const std::string& address, const std::string& line) {
  const CommandLineRun run = RunEstimate(address, line + " --json");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  return nlohmann::json::parse(run.output, nullptr, false);
}

// A server of 256 MiB with messages of 16 MiB.
FakeAnswer Describe(const FakeCall& call) {
  if (call.method != "/attend.v1.AttentionService/GetServerInfo") return FailWith(grpc::StatusCode::INTERNAL, "asked");
  v1::GetServerInfoResponse about;
  about.set_version("1.2.3");
  about.set_instruction_set("avx512_bf16");
  about.set_compute_threads(4);
  about.set_memory_budget_bytes(256 << 20);
  about.set_max_message_bytes(16 << 20);
  about.set_max_head_dim(1024);
  about.set_multiply_adds_per_second(1e11);
  return AnswerWith(about);
}

TEST(EstimateCommand, WithoutAServer) {
  const CommandLineRun run = RunEstimate(kNoServer, "--length 2048 --heads 1 --head_dim 128");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.errors, "");
  EXPECT_THAT(run.output, HasSubstr("1 head, 2048 queries x 2048 keys, dim 128, f32\n"));
  EXPECT_THAT(run.output, HasSubstr("multiply-adds       1.074e+09     of both products\n"));
  EXPECT_THAT(run.output, HasSubstr("N x N matrix        16 MiB        the scores of all heads in f32: never stored"));
  EXPECT_THAT(run.output, HasSubstr("inputs              3 MiB         query 1 MiB, key 1 MiB, value 1 MiB\n"));
  EXPECT_THAT(run.output, HasSubstr("; 8 threads, avx512\n"));
  EXPECT_THAT(run.output, AllOf(HasSubstr("Without a server: "), HasSubstr("time                unknown\n"),
                                HasSubstr("admitted            unknown\n")));
}

TEST(EstimateCommand, ClassicFigures) {
  EXPECT_EQ(Json(kNoServer, "--length 2048 --heads 1 --head_dim 128")["multiply_adds"], 1'073'741'824);
  EXPECT_EQ(Json(kNoServer, "--length 4096 --heads 1")["score_matrix_bytes"], int64_t{64} << 20);
  EXPECT_EQ(Json(kNoServer, "--length 4096 --heads 32 --batch 32 --head_dim 128")["score_matrix_bytes"],
            int64_t{64} << 30);
  EXPECT_EQ(Json(kNoServer, "--length 131072")["scores_per_head"], 17'179'869'184);
}

TEST(EstimateCommand, WithAServer) {
  FakeServer server(Describe);
  const std::string line = "--length 1024 --heads 8 --kv_heads 2 --causal top_left --logsumexp";
  const CommandLineRun run = RunEstimate(server.address(), line);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("8 heads on 2, 1024 queries x 1024 keys, dim 64, f32, causal top_left\n"));
  EXPECT_THAT(run.output, HasSubstr("; 4 threads, avx512_bf16\n"));
  EXPECT_THAT(run.output, HasSubstr("attend-server 1.2.3 at " + server.address() + "\n"));
  EXPECT_THAT(run.output, HasSubstr("at the 100 G multiply-adds/s that it measured at start, alone\n"));
  EXPECT_THAT(run.output, HasSubstr("admitted            yes\n"));
  const nlohmann::json json = Json(server.address(), line);
  EXPECT_EQ(json["server"]["admitted"], true);
  EXPECT_DOUBLE_EQ(json["server"]["seconds"], json["multiply_adds"].get<double>() / 1e11);
  EXPECT_EQ(json["compute_threads"], 4);
  EXPECT_EQ(json["problem"]["kv_heads"], 2);
  EXPECT_EQ(json["reserved_bytes"].get<int64_t>(),
            json["working_bytes"].get<int64_t>() + json["response_message_bytes"].get<int64_t>() + (3 << 20));
  EXPECT_TRUE(json["refusals"].empty());
  EXPECT_FALSE(json.contains("no_server"));
}

TEST(EstimateCommand, WhatTheServerWouldRefuse) {
  FakeServer server(Describe);
  CommandLineRun run = RunEstimate(server.address(), "--length 16384 --head_dim 128");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("admitted            no            the request has "));
  EXPECT_THAT(run.output, HasSubstr(", must have at most 16777216 (max_message_bytes)\n"));
  EXPECT_THAT(run.output, HasSubstr("the response has 67109376 bytes, must have at most 16777216"));
  run = RunEstimate(server.address(), "--length 8 --batch 1000 --weights --head_dim 2000");
  EXPECT_THAT(run.output, HasSubstr("head_dim is 2000, must be in [1, 1024]"));
  EXPECT_THAT(run.output, HasSubstr("what of it is asked for is under results"));
}

// Every thread may hold a head's keys and values, which are small on the wire and padded when packed.
TEST(EstimateCommand, MemoryOfManyThreads) {
  FakeServer server(Describe);
  const std::string line = "--length 100000 --query_length 32 --heads 32 --head_dim 1 --element_type f16 ";
  const nlohmann::json admitted = Json(server.address(), line);
  EXPECT_EQ(admitted["server"]["admitted"], true) << admitted["refusals"];
  EXPECT_EQ(admitted["compute_threads"], 4);
  const nlohmann::json refused = Json(server.address(), line + "--compute_threads 64");
  EXPECT_EQ(refused["server"]["admitted"], false);
  EXPECT_EQ(refused["compute_threads"], 64) << "what was said, not what the server is";
  ASSERT_EQ(refused["refusals"].size(), 1u);
  EXPECT_THAT(refused["refusals"][0].get<std::string>(),
              MatchesRegex("computing it takes [0-9]+ bytes of memory, must be at most 268435456 .memory_budget."));
}

TEST(EstimateCommand, NoServerTakesMoreThanGrpc) {
  const nlohmann::json json = Json(kNoServer, "--length 1000000 --heads 32 --head_dim 128");
  EXPECT_EQ(json["server"], nullptr);
  EXPECT_THAT(json["no_server"].get<std::string>(), Not(testing::IsEmpty()));
  ASSERT_EQ(json["refusals"].size(), 2u);
  EXPECT_THAT(json["refusals"][0].get<std::string>(),
              HasSubstr("must have at most 2147483647 (no message of gRPC is longer)"));
}

TEST(EstimateCommand, SetupsOfOneselfs) {
  const auto working = [](const std::string& line) {
    return Json(kNoServer, "--length 5000 --element_type bf16 " + line)["working_bytes"].get<int64_t>();
  };
  EXPECT_LT(working("--instruction_set avx512_bf16"), working("--instruction_set avx512")) << "no conversion to f32";
  EXPECT_LT(working("--instruction_set avx512"), working("--instruction_set avx2")) << "panels with gaps";
  EXPECT_LT(working("--compute_threads 1"), working("--compute_threads 2"));
}

TEST(EstimateCommand, NoServerIsOneThingABadConnectionAnother) {
  FakeServer refusing([](const FakeCall&) { return FailWith(grpc::StatusCode::UNAUTHENTICATED, "a token is needed"); });
  struct Case {
    std::string address;
    std::string line;
    int exit_code;
    const char* message;
  };
  for (const Case& bad :
       {Case{kNoServer, "--tls_ca /nowhere", 1, "tls_ca /nowhere cannot be read"},
        Case{kNoServer, "--tls_cert /nowhere", 2, "--tls_cert and --tls_key must be given together"},
        Case{kNoServer, "--token_file /nowhere", 1, "token_file /nowhere cannot be read"},
        Case{"ipv4:localhost:1", "", 1, "is no address"},
        Case{"ipv4:127.0.0.1:1,127.0.0.1:2", "--tls_server_name x --tls_ca /nowhere", 1, "tls_ca /nowhere"},
        Case{"ipv4:127.0.0.1:1,127.0.0.1:2", "--tls_ca /nowhere", 1, "tls_server_name must be set"},
        Case{refusing.address(), "", 1, "a token is needed"}}) {
    const CommandLineRun run = RunEstimate(bad.address, "--length 8 " + bad.line);
    EXPECT_EQ(run.exit_code, bad.exit_code) << bad.address << " " << bad.line;
    EXPECT_THAT(run.errors, HasSubstr(bad.message)) << bad.line;
    EXPECT_EQ(run.output, "") << bad.line;
  }
}

TEST(EstimateCommand, SaysWhatWasAskedFor) {
  EXPECT_THAT(RunEstimate(kNoServer, "--length 1 --heads 1").output, HasSubstr("1 head, 1 query x 1 key, dim 64"));
  EXPECT_THAT(RunEstimate(kNoServer, "--length 8 --output_type f16").errors, HasSubstr("is f16, must be f32\n"));
  EXPECT_THAT(RunEstimate(kNoServer, "--length 8 --element_type bf16 --output_type f16").errors,
              HasSubstr("is f16, must be bf16 or f32\n"));
  const CommandLineRun run = RunEstimate(kNoServer, "--length 1000000000000 --head_dim 1 --heads 1");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors,
              HasSubstr("attend: the N x N matrix of [1, 1, 1000000000000, 1000000000000] f32 has too many"));
  const nlohmann::json problem = Json(kNoServer,
                                      "--length 8 --layout bnhd --element_type bf16 --output_type f32 "
                                      "--compute_type bf16 --window_left 3")["problem"];
  EXPECT_EQ(problem["layout"], "bnhd");
  EXPECT_EQ(problem["compute_type"], "bf16");
  EXPECT_EQ(problem["output_type"], "f32");
  EXPECT_EQ(problem["window_left"], 3);
  EXPECT_EQ(problem["window_right"], -1);
}

TEST(EstimateCommand, BadCommandLinesAndShapes) {
  for (const char* line :
       {"", "--length 0", "--length -1", "--length 99999999999999999999", "--length 8 --heads 6 --kv_heads 4",
        "--length 8 --average_weights_over_heads", "--length 8 --omit_output", "--length 8 --causal yes",
        "--length 8 --output_type bf16", "--length 8 --element_type f16 --compute_type bf16",
        "--length 8 --compute_threads 0", "--length 8 --instruction_set sse", "--length 8 --window_left -2"}) {
    const CommandLineRun run = RunEstimate(kNoServer, line);
    EXPECT_EQ(run.exit_code, 2) << line;
    EXPECT_THAT(run.errors, MatchesRegex("attend: [^\n]+\n")) << line;
    EXPECT_EQ(run.output, "");
  }
  const CommandLineRun run = RunEstimate(kNoServer, "--length 9223372036854775807");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors,
              MatchesRegex("attend: query of \\[1, 8, 9223372036854775807, 64\\] f32 has too many [^\n]+\n"));
  EXPECT_EQ(run.output, "");
}

}  // namespace
}  // namespace attend::client
