// The file that tells scripts where a server listens: there once the server is ready, gone when it ends.
#ifndef ATTEND_SERVER_READY_FILE_H_
#define ATTEND_SERVER_READY_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace attend::server {

// {"grpc": "host:port", "http": "host:port", "pid": n}.
struct ReadyNotice {
  std::string grpc_address;
  std::string http_address;
  int process_id = 0;
};

class ReadyFile {
 public:
  // Written to a temporary name beside `path` and renamed: whoever sees it sees all of it. UNAVAILABLE, with path and
  // reason, if it cannot be.
  static absl::StatusOr<std::unique_ptr<ReadyFile>> Create(const std::string& path, const ReadyNotice& notice);

  // Removes the file.
  ~ReadyFile();

  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

 private:
  explicit ReadyFile(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_READY_FILE_H_
