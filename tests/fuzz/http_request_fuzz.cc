// The HTTP port, from its socket on: whatever is sent, nothing comes back, or one answer of a status that is promised
// and of a length that the sender cannot raise; and the port goes on answering.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/http_server.h"
#include "tests/fuzz/fuzz_target.h"

namespace attend::fuzz {
namespace {

constexpr size_t kMostAnswerBytes = 16 << 10;

class Port {
 public:
  Port() {
    auto address = server::ListeningAddress::Create(absl::StrCat("unix:", path_));
    if (!address.ok()) BrokenPromise(std::string(address.status().message()));
    auto server = server::HttpServer::Create(*std::move(address), {.ready = [] { return absl::OkStatus(); },
                                                                   .metrics = [] { return std::string("fuzz 1\n"); }});
    if (!server.ok()) BrokenPromise(std::string(server.status().message()));
    server_ = *std::move(server);
  }

  // Everything that comes back for `request`, after which nothing more is sent.
  std::string Answer(absl::string_view request) const {
    const server::Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(name.sun_path, sizeof(name.sun_path) - 1);
    if (connect(connection.number(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
      BrokenPromise(absl::StrCat("the port takes no connection: ", std::strerror(errno)));
    }
    while (!request.empty()) {
      const ssize_t count = send(connection.number(), request.data(), request.size(), MSG_NOSIGNAL);
      if (count <= 0) break;  // it has heard enough
      request.remove_prefix(static_cast<size_t>(count));
    }
    shutdown(connection.number(), SHUT_WR);
    std::string answer;
    std::array<char, 4096> bytes;
    ssize_t count = 0;
    while ((count = recv(connection.number(), bytes.data(), bytes.size(), 0)) > 0) {
      answer.append(bytes.data(), static_cast<size_t>(count));
    }
    return answer;
  }

 private:
  const std::string path_ = std::filesystem::temp_directory_path() / absl::StrCat("http_request_fuzz.", getpid());
  std::unique_ptr<server::HttpServer> server_;
};

// What is wrong with an answer; empty if nothing is.
std::string WrongAnswer(absl::string_view answer) {
  if (answer.empty()) return "";
  if (answer.size() > kMostAnswerBytes) return absl::StrCat("an answer of ", answer.size(), " bytes");
  int status = 0;
  if (answer.substr(0, 9) != "HTTP/1.1 " || !absl::SimpleAtoi(answer.substr(9, 3), &status)) return "no HTTP";
  for (const int promised : {100, 200, 400, 404, 405, 414, 416, 417}) {
    if (status == promised) return "";
  }
  return absl::StrCat("an answer of status ", status);
}

}  // namespace

std::vector<std::string> SeedInputs() {
  return {"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "HEAD /readyz HTTP/1.0\r\nRange: bytes=0-1,2-\r\n\r\n",
          "GET /metrics?x=%41&y=1#z HTTP/1.1\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n",
          "POST /livez HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
          "PUT /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"};
}

}  // namespace attend::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const attend::fuzz::Port port;
  const absl::string_view input(reinterpret_cast<const char*>(bytes), size);
  const std::string wrong = attend::fuzz::WrongAnswer(port.Answer(input));
  if (wrong.empty()) return 0;
  attend::fuzz::BrokenPromise(absl::StrCat(wrong, " for the bytes ", absl::BytesToHexString(input)));
}
