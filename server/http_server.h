// The HTTP port for probes and scrapers: /livez, /readyz and /metrics, never behind the compute pool.
#ifndef ATTEND_SERVER_HTTP_SERVER_H_
#define ATTEND_SERVER_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attend::server {

class HttpServer {
 public:
  // Both are called on any thread, several at a time.
  struct Pages {
    std::function<absl::Status()> ready;   // /readyz: 200 if OK, else 503 and the message
    std::function<std::string()> metrics;  // /metrics
  };

  // Listens on `address` ("host:port", "[v6]:port"; port 0: a free one) and answers from the return on.
  // UNAVAILABLE, with the reason, if it cannot: the port is in use.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Create(const std::string& address, Pages pages);

  // Stops listening and waits for answers under way, at most about a second.
  ~HttpServer();

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "host:port" with the port that is listened on.
  const std::string& address() const { return address_; }

 private:
  class Listener;
  HttpServer(std::unique_ptr<Listener> listener, std::string address);
  std::unique_ptr<Listener> listener_;
  std::string address_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_HTTP_SERVER_H_
