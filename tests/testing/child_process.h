// A program started by a test: its output captured, its end awaited, never left behind.
#ifndef ATTEND_TESTS_TESTING_CHILD_PROCESS_H_
#define ATTEND_TESTS_TESTING_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attend::testing {

// A new folder under $TMPDIR (or /tmp), removed with all its contents when this is destroyed.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Create();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const;  // the path of a file in it

 private:
  explicit TemporaryFolder(std::string path);
  std::string path_;
};

// The contents of a file. NOT_FOUND if it cannot be read.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// How a process ended: exactly one of the two is set.
struct ExitStatus {
  std::optional<int> code;
  std::optional<int> signal;
};

// Not thread-safe, but for reading output.
class ChildProcess {
 public:
  struct Options {
    // The program's path and its arguments.
    std::vector<std::string> command = {};
    // NAME=value, added to this process's own environment, less its ATTEND_* variables.
    std::vector<std::string> environment = {};
    // The limit of open descriptors (RLIMIT_NOFILE), soft and hard: nothing raises it again. 0 leaves it.
    int64_t max_open_files = 0;
    // Where its standard error goes, which stays the caller's. -1: into a file, for StandardError.
    int standard_error = -1;
  };

  // Starts the program. INVALID_ARGUMENT if it is not there or not executable.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(Options options);

  // Kills the process if it still runs, and waits for it. It dies with the test program, however that ends.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running();

  // Sends a signal; ignored once the process has been waited for.
  void Signal(int signal_number);

  // DEADLINE_EXCEEDED if the process still runs after `timeout`; it goes on running.
  absl::StatusOr<ExitStatus> Wait(absl::Duration timeout);

  // What it has written so far.
  std::string StandardOutput() const;
  std::string StandardError() const;

  // From /proc. -1 once the process is gone.
  int64_t ResidentBytes() const;
  // The largest since the start or since ResetPeakResidentBytes.
  int64_t PeakResidentBytes() const;
  void ResetPeakResidentBytes() const;
  // Descriptors it has open.
  int64_t OpenFiles() const;
  int64_t Threads() const;

 private:
  ChildProcess(std::unique_ptr<TemporaryFolder> folder, pid_t pid);
  int64_t StatusLine(absl::string_view name) const;

  std::unique_ptr<TemporaryFolder> folder_;  // holds what it writes
  pid_t pid_;
  std::optional<ExitStatus> exit_;
};

// A program run to its end.
struct FinishedProgram {
  ExitStatus exit;
  std::string standard_output;
  std::string standard_error;
};

// Runs a program and waits for it. DEADLINE_EXCEEDED, and the program killed, if it takes longer than `timeout`.
absl::StatusOr<FinishedProgram> RunProgram(ChildProcess::Options options, absl::Duration timeout = absl::Seconds(60));

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_CHILD_PROCESS_H_
