#include "server/log.h"

#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "nlohmann/json.hpp"
#include "spdlog/async_logger.h"
#include "spdlog/details/thread_pool.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace attend::server {
namespace {

constexpr size_t kQueuedLines = 8192;
constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %v";
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

// gpr_set_log_function takes no context: the one place where a log must be found globally.
std::atomic<Log*> grpc_log{nullptr};
std::atomic<LogLevel> grpc_level{LogLevel::kError};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel FromGrpcSeverity(gpr_log_severity severity) {
  switch (severity) {
    case GPR_LOG_SEVERITY_DEBUG:
      return LogLevel::kDebug;
    case GPR_LOG_SEVERITY_INFO:
      return LogLevel::kInfo;
    case GPR_LOG_SEVERITY_ERROR:
      return LogLevel::kError;
  }
  return LogLevel::kError;
}

void WriteGrpcLine(gpr_log_func_args* line) {
  Log* const log = grpc_log.load();
  if (log == nullptr) return;
  const LogLevel level = std::min(FromGrpcSeverity(line->severity), grpc_level.load());
  log->Write(level, "grpc",
             {{"text", std::string(line->message)}, {"file", absl::StrCat(line->file, ":", line->line)}});
}

// What protobuf has to say comes from strangers: a line for each string that is not UTF-8. Only what it dies of
// matters.
void WriteProtobufLine(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  Log* const log = grpc_log.load();
  if (log == nullptr) return;
  log->Write(level == google::protobuf::LOGLEVEL_FATAL ? LogLevel::kError : LogLevel::kDebug, "protobuf",
             {{"text", message}, {"file", absl::StrCat(file, ":", line)}});
}

std::string JsonText(absl::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// A word stands as it is; anything else is quoted and escaped.
std::string PlainText(const std::string& text) {
  const std::string escaped = absl::CEscape(text);
  const bool is_word = !text.empty() && escaped == text && text.find_first_of(" =") == std::string::npos;
  return is_word ? text : absl::StrCat("\"", escaped, "\"");
}

struct ValueText {
  LogFormat format;
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return nlohmann::json(value).dump(); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const {
    return format == LogFormat::kJson ? JsonText(value) : PlainText(value);
  }
};

}  // namespace

std::string FormatLine(LogFormat format, absl::string_view message, const LogFields& fields) {
  const bool json = format == LogFormat::kJson;
  std::string line = json ? absl::StrCat("\"message\":", JsonText(message)) : absl::CEscape(message);
  for (const LogField& field : fields) {
    const std::string value = std::visit(ValueText{format}, field.value);
    json ? absl::StrAppend(&line, ",\"", field.name, "\":", value)
         : absl::StrAppend(&line, " ", field.name, "=", value);
  }
  return line;
}

// spdlog's asynchronous logger, with a queue and a thread that are this log's own rather than the process's.
class Log::Sink {
 public:
  Sink(LogFormat format, LogLevel level)
      : thread_pool_(std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1)),
        logger_(std::make_shared<spdlog::async_logger>("attend", std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                                       thread_pool_, spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_level(SpdlogLevel(level));
    logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        format == LogFormat::kJson ? kJsonPattern : kTextPattern, spdlog::pattern_time_type::utc));
  }

  bool Wants(LogLevel level) const { return logger_->should_log(SpdlogLevel(level)); }
  void Write(LogLevel level, const std::string& line) { logger_->log(SpdlogLevel(level), line); }
  int64_t dropped_lines() const { return static_cast<int64_t>(thread_pool_->overrun_counter()); }

 private:
  // Shared because spdlog's logger wants them so. The pool's destructor writes what is queued, then joins its thread.
  std::shared_ptr<spdlog::details::thread_pool> thread_pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

Log::Log(LogFormat format, LogLevel level) : format_(format), sink_(std::make_unique<Sink>(format, level)) {}

Log::~Log() {
  Log* self = this;
  grpc_log.compare_exchange_strong(self, nullptr);
}

void Log::Write(LogLevel level, absl::string_view message, const LogFields& fields) {
  if (sink_->Wants(level)) sink_->Write(level, FormatLine(format_, message, fields));
}

int64_t Log::dropped_lines() const { return sink_->dropped_lines(); }

void Log::CaptureGrpcLines(LogLevel level) {
  grpc_level = level;
  grpc_log = this;
  gpr_set_log_function(&WriteGrpcLine);
  google::protobuf::SetLogHandler(&WriteProtobufLine);
}

}  // namespace attend::server
