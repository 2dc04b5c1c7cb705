// Input and errors go through unnamed files rather than pipes: nothing can fill up, and a program that ends without
// reading does not send this one a SIGPIPE.
#include "client/piped_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

// An unnamed file in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("attend", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }

  bool Fill(absl::string_view text) const {
    size_t written = 0;
    while (written < text.size()) {
      const ssize_t count = write(descriptor_, text.data() + written, text.size() - written);
      if (count < 0 && errno != EINTR) return false;
      if (count > 0) written += static_cast<size_t>(count);
    }
    return lseek(descriptor_, 0, SEEK_SET) == 0;
  }

  std::string Contents() const {
    constexpr size_t kMost = 4096;
    std::string text(kMost, '\0');
    const ssize_t count = pread(descriptor_, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

 private:
  int descriptor_;
};

absl::Status StartError(const std::string& program, int error) {
  const std::string message = absl::StrCat(program, ": ", std::generic_category().message(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

}  // namespace

absl::StatusOr<PipedProgramOutcome> RunPipedProgram(std::vector<std::string> arguments, absl::string_view input) {
  const MemoryFile standard_input;
  const MemoryFile standard_error;
  if (standard_error.descriptor() < 0 || !standard_input.Fill(input)) return StartError(arguments[0], errno);

  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, standard_input.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, standard_error.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return StartError(arguments[0], error);
  const int exit_code = WaitFor(child);
  return PipedProgramOutcome{.exit_code = exit_code, .standard_error = standard_error.Contents()};
}

}  // namespace attend::client
