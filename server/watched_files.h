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
  // Takes the contents, in the order of the paths, if they are good; else says what is wrong and changes nothing.
  using Use = std::function<absl::Status(const std::vector<std::string>& contents)>;

  WatchedFiles(std::vector<std::string> paths, Use use) : paths_(std::move(paths)), use_(std::move(use)) {}

  // Reads all files. True if they were used; false if nothing has changed since the last look, or they are as bad as
  // then. FAILED_PRECONDITION, with the path: a file that cannot be read or is over 1 MiB. Any error of `use`.
  absl::StatusOr<bool> Look();

 private:
  const std::vector<std::string> paths_;
  const Use use_;
  std::vector<std::string> used_;
  absl::Status last_;  // of the last look
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_WATCHED_FILES_H_
