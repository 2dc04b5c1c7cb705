// The log: lines on stderr, as text or JSON, written by a thread of its own. A full queue drops its oldest line and
// counts it; nobody ever waits for a slow reader of stderr.
#ifndef ATTEND_SERVER_LOG_H_
#define ATTEND_SERVER_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/settings.h"

namespace attend::server {

// A named value of a line. Text may come from a stranger: it is escaped, whatever it holds.
struct LogField {
  absl::string_view name;
  std::variant<int64_t, double, bool, std::string> value;
};
using LogFields = std::vector<LogField>;

// What follows time and level in a line. Text: `message name=value name="with space"`, ASCII, everything else escaped
// as in C. JSON: the members of an object, `"message":"...","name":value`, without the braces.
std::string FormatLine(LogFormat format, absl::string_view message, const LogFields& fields);

// Thread-safe.
class Log {
 public:
  Log(LogFormat format, LogLevel level);
  // Writes what is queued.
  ~Log();

  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void Write(LogLevel level, absl::string_view message, const LogFields& fields = {});

  // Lines that were dropped because the queue was full.
  int64_t dropped_lines() const;

  // gRPC's own lines go through this log from here on, at most at `level`, and protobuf's at debug, until the log is
  // destroyed. Each knows one sink per process: the last log that asked has it.
  void CaptureGrpcLines(LogLevel level);

 private:
  class Sink;
  LogFormat format_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_LOG_H_
