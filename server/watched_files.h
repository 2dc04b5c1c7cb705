// Files that belong together: read at once, used only if they are good, and again when they have changed.
#ifndef ATTEND_SERVER_WATCHED_FILES_H_
#define ATTEND_SERVER_WATCHED_FILES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attend::server {

// Not thread-safe.
class WatchedFiles {
 public:
  struct File {
    std::string setting;  // that names it, for messages
    std::string path;
  };

  // Takes the contents, in the order of the files, if they are good; else says what is wrong and changes nothing.
  using Use = std::function<absl::Status(const std::vector<std::string>& contents)>;

  WatchedFiles(std::vector<File> files, Use use) : files_(std::move(files)), use_(std::move(use)) {}

  // Reads all files. True if they were used; false if nothing has changed since the last look, or they are as bad as
  // then. FAILED_PRECONDITION, with setting and path: a file that cannot be read, is no regular one (a pipe could be
  // read once only, and nobody might ever write to it), or is over 1 MiB. Any error of `use`. Never waits for a file.
  absl::StatusOr<bool> Look();

 private:
  const std::vector<File> files_;
  const Use use_;
  std::vector<std::string> used_;
  absl::Status last_;  // of the last look
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_WATCHED_FILES_H_
