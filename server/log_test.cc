#include "server/log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace attend::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

// A line with everything that could break one: quotes, line ends, bytes that are no UTF-8, an escape sequence.
const char kHostile[] = "a\"b\\c\nd\te\x01\xff\x1b[31m";

TEST(LogTest, TextEscapesWhatAStrangerWrote) {
  EXPECT_EQ(FormatLine(LogFormat::kText, "request", {{"id", std::string("abc-1")}, {"peer", std::string("a b")}}),
            R"(request id=abc-1 peer="a b")");
  EXPECT_EQ(FormatLine(LogFormat::kText, "request", {{"id", std::string(kHostile)}}),
            R"(request id="a\"b\\c\nd\te\001\377\033[31m")");
  EXPECT_EQ(FormatLine(LogFormat::kText, "request", {{"id", std::string()}}), R"(request id="")");
  EXPECT_EQ(FormatLine(LogFormat::kText, "request", {{"id", std::string("a code=OK")}}), R"(request id="a code=OK")");
}

TEST(LogTest, TextWritesNumbersAndSwitches) {
  EXPECT_EQ(FormatLine(LogFormat::kText, "m", {{"n", int64_t{-5}}, {"x", 0.25}, {"on", true}}),
            "m n=-5 x=0.25 on=true");
}

TEST(LogTest, JsonCanBeReadBack) {
  const std::string line =
      FormatLine(LogFormat::kJson, "a \"message\"", {{"id", std::string(kHostile)}, {"n", int64_t{7}}, {"x", 1.5}});
  const nlohmann::json json = nlohmann::json::parse(absl::StrCat("{", line, "}"));
  EXPECT_EQ(json["message"], "a \"message\"");
  EXPECT_EQ(json["n"], 7);
  EXPECT_EQ(json["x"], 1.5);
  EXPECT_EQ(json["id"], "a\"b\\c\nd\te\x01\xEF\xBF\xBD\x1b[31m");
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST(LogTest, WritesLinesAtOrAboveItsLevelBeforeItEnds) {
  CaptureStderr();
  {
    Log log(LogFormat::kText, LogLevel::kWarning);
    log.Write(LogLevel::kInfo, "quiet");
    log.Write(LogLevel::kWarning, "loud", {{"n", int64_t{1}}});
    log.Write(LogLevel::kError, "louder");
  }
  EXPECT_THAT(GetCapturedStderr(),
              AllOf(Not(HasSubstr("quiet")), HasSubstr("warning loud n=1\n"), HasSubstr("error louder\n")));
}

TEST(LogTest, JsonLinesAreObjectsWithTimeAndLevel) {
  CaptureStderr();
  { Log(LogFormat::kJson, LogLevel::kInfo).Write(LogLevel::kInfo, "ready", {{"grpc", std::string("h:1")}}); }
  const nlohmann::json json = nlohmann::json::parse(GetCapturedStderr());
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["message"], "ready");
  EXPECT_EQ(json["grpc"], "h:1");
  EXPECT_THAT(json["time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T..:..:..\\....Z"));
}

TEST(LogTest, TakesGrpcLinesAtMostAtTheLevelGiven) {
  gpr_log_verbosity_init();  // which grpc_init would call
  CaptureStderr();
  {
    Log log(LogFormat::kText, LogLevel::kInfo);
    log.CaptureGrpcLines(LogLevel::kError);
    gpr_log(GPR_ERROR, "first %d", 1);
    log.CaptureGrpcLines(LogLevel::kDebug);
    gpr_log(GPR_ERROR, "second %d", 2);
  }
  gpr_log(GPR_ERROR, "after the end of the log");
  EXPECT_THAT(GetCapturedStderr(),
              AllOf(HasSubstr("error grpc text=\"first 1\""), Not(HasSubstr("second")), Not(HasSubstr("after"))));
}

TEST(LogTest, TakesProtobufLinesAtDebug) {
  CaptureStderr();
  {
    Log log(LogFormat::kText, LogLevel::kInfo);
    log.CaptureGrpcLines(LogLevel::kError);
    GOOGLE_LOG(ERROR) << "a string that is not UTF-8";
  }
  EXPECT_EQ(GetCapturedStderr(), "");
  CaptureStderr();
  {
    Log log(LogFormat::kText, LogLevel::kDebug);
    log.CaptureGrpcLines(LogLevel::kError);
    GOOGLE_LOG(ERROR) << "a string that is not UTF-8";
  }
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("debug protobuf text=\"a string that is not UTF-8\""));
}

}  // namespace
}  // namespace attend::server
