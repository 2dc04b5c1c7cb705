#include "server/ready_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace attend::server {

absl::StatusOr<std::unique_ptr<ReadyFile>> ReadyFile::Create(const std::string& path, const ReadyNotice& notice) {
  const std::string temporary = absl::StrCat(path, ".", notice.process_id, ".tmp");
  const nlohmann::ordered_json json = {
      {"grpc", notice.grpc_address}, {"http", notice.http_address}, {"pid", notice.process_id}};
  std::ofstream file(temporary);
  file << json.dump() << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return absl::UnavailableError(absl::StrCat("ready_file ", path, " cannot be written: ", std::strerror(error)));
  }
  return std::unique_ptr<ReadyFile>(new ReadyFile(path));
}

ReadyFile::~ReadyFile() { std::remove(path_.c_str()); }

}  // namespace attend::server
