#include "tests/testing/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace attend::testing {
namespace {

// Everything the child needs between fork and exec, where nothing may be allocated.
struct Launch {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int standard_output = -1;
  int standard_error = -1;
  int failure = -1;  // takes the error number if the program cannot be executed; closed by its execution
  rlim_t max_open_files = 0;
  pid_t parent = 0;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment without ATTEND_* settings, which would change what is under test, and with `additions`.
std::vector<std::string> ChildEnvironment(const std::vector<std::string>& additions) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "ATTEND_")) result.emplace_back(*entry);
  }
  result.insert(result.end(), additions.begin(), additions.end());
  return result;
}

[[noreturn]] void RunChild(const Launch& launch) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);  // the test died before the line above
  dup2(launch.standard_output, STDOUT_FILENO);
  dup2(launch.standard_error, STDERR_FILENO);
  if (launch.max_open_files > 0) {
    const rlimit limit = {.rlim_cur = launch.max_open_files, .rlim_max = launch.max_open_files};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
  const int error = errno;
  (void)!write(launch.failure, &error, sizeof(error));
  _exit(127);
}

// Waits until the program has taken the child's place, so that what is asked of the child from now on is said of the
// program. Returns the error number, 0 if there was none.
int WaitForExecution(int failure) {
  int error = 0;
  while (read(failure, &error, sizeof(error)) < 0 && errno == EINTR) {
  }
  return error;
}

int OpenForOutput(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

int64_t CountEntries(const std::string& folder) {
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return error ? -1 : count;
}

}  // namespace

TemporaryFolder::TemporaryFolder(std::string path) : path_(std::move(path)) {}

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Create() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnavailableError(absl::StrCat("no temporary folder: ", error.message()));
  std::string path = (parent / "attend-test-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) return absl::UnavailableError(absl::StrCat("mkdtemp ", path, " failed"));
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TemporaryFolder::File(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::ostringstream contents;
  contents << file.rdbuf();
  return std::move(contents).str();
}

ChildProcess::ChildProcess(std::unique_ptr<TemporaryFolder> folder, pid_t pid)
    : folder_(std::move(folder)), pid_(pid) {}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(Options options) {
  if (options.command.empty() || access(options.command[0].c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an executable file: ", options.command.empty() ? "(empty)" : options.command[0]));
  }
  auto folder = TemporaryFolder::Create();
  if (!folder.ok()) return folder.status();
  std::vector<std::string> environment = ChildEnvironment(options.environment);
  Launch launch;
  launch.arguments = Pointers(options.command);
  launch.environment = Pointers(environment);
  launch.standard_output = OpenForOutput((*folder)->File("stdout"));
  const int captured = OpenForOutput((*folder)->File("stderr"));
  launch.standard_error = options.standard_error < 0 ? captured : options.standard_error;
  launch.max_open_files = options.max_open_files;
  launch.parent = getpid();
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return absl::UnavailableError("no pipe");
  launch.failure = failure[1];
  const pid_t pid = fork();
  if (pid == 0) RunChild(launch);
  for (const int descriptor : {launch.standard_output, captured, failure[1]}) close(descriptor);
  const int error = pid < 0 ? 0 : WaitForExecution(failure[0]);
  close(failure[0]);
  if (pid < 0) return absl::UnavailableError("fork failed");
  auto child = std::unique_ptr<ChildProcess>(new ChildProcess(*std::move(folder), pid));
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot execute ", options.command[0], ": ", strerror(error)));
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (exit_.has_value()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool ChildProcess::running() { return absl::IsDeadlineExceeded(Wait(absl::ZeroDuration()).status()); }

void ChildProcess::Signal(int signal_number) {
  if (!exit_.has_value()) kill(pid_, signal_number);
}

absl::StatusOr<ExitStatus> ChildProcess::Wait(absl::Duration timeout) {
  if (exit_.has_value()) return *exit_;
  // The system call itself: the declaration in glibc 2.36 is not meant for C++.
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (descriptor < 0) return absl::InternalError("pidfd_open failed");
  pollfd watched = {.fd = descriptor, .events = POLLIN, .revents = 0};
  const int ready = poll(&watched, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  close(descriptor);
  if (ready <= 0) {
    return absl::DeadlineExceededError(absl::StrCat("process ", pid_, " runs after ", absl::FormatDuration(timeout)));
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  ExitStatus result;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  exit_ = result;
  return result;
}

std::string ChildProcess::StandardOutput() const { return ReadFile(folder_->File("stdout")).value_or(""); }

std::string ChildProcess::StandardError() const { return ReadFile(folder_->File("stderr")).value_or(""); }

int64_t ChildProcess::StatusLine(absl::string_view name) const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/status"));
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, name)) continue;
    const size_t from = line.find_first_of("0123456789");
    const size_t to = line.find_first_not_of("0123456789", from);
    int64_t value = 0;
    if (from != std::string::npos && absl::SimpleAtoi(line.substr(from, to - from), &value)) return value;
  }
  return -1;
}

int64_t ChildProcess::ResidentBytes() const {
  const int64_t kibibytes = StatusLine("VmRSS:");
  return kibibytes < 0 ? -1 : kibibytes * 1024;
}

int64_t ChildProcess::PeakResidentBytes() const {
  const int64_t kibibytes = StatusLine("VmHWM:");
  return kibibytes < 0 ? -1 : kibibytes * 1024;
}

void ChildProcess::ResetPeakResidentBytes() const { std::ofstream(absl::StrCat("/proc/", pid_, "/clear_refs")) << "5"; }

int64_t ChildProcess::OpenFiles() const { return CountEntries(absl::StrCat("/proc/", pid_, "/fd")); }

int64_t ChildProcess::Threads() const { return StatusLine("Threads:"); }

absl::StatusOr<FinishedProgram> RunProgram(ChildProcess::Options options, absl::Duration timeout) {
  auto child = ChildProcess::Start(std::move(options));
  if (!child.ok()) return child.status();
  const absl::StatusOr<ExitStatus> exit = (*child)->Wait(timeout);
  if (!exit.ok()) {
    return absl::Status(exit.status().code(),
                        absl::StrCat(exit.status().message(), "; its standard error: ", (*child)->StandardError()));
  }
  return FinishedProgram{*exit, (*child)->StandardOutput(), (*child)->StandardError()};
}

}  // namespace attend::testing
