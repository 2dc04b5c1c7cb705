// The HTTP port for probes and scrapers: /livez, /readyz and /metrics, never behind the compute pool.
#ifndef ATTEND_SERVER_HTTP_SERVER_H_
#define ATTEND_SERVER_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/connection_acceptor.h"
#include "server/http_request_collector.h"
#include "server/listening_address.h"

namespace attend::server {

class HttpServer {
 public:
  struct Options {
    // Both are called on any thread, several at a time.
    std::function<absl::Status()> ready;   // /readyz: 200 if OK, else 503 and the message
    std::function<std::string()> metrics;  // /metrics
    // Connections at a time, slow ones among them. Half of them may wait for the rest of their requests.
    int64_t max_connections = 512;
  };

  // Serves the connections to `address` from the return on: one request each, GET and HEAD. RESOURCE_EXHAUSTED if there
  // is no descriptor left for that.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Create(std::unique_ptr<ListeningAddress> address, Options options);

  // Stops listening and waits for answers under way.
  ~HttpServer();

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "host:port" with the port that is listened on.
  std::string address() const { return address_->text(); }

 private:
  class Answerer;
  HttpServer(std::unique_ptr<ListeningAddress> address, Options options);
  absl::Status Start();

  const std::unique_ptr<ListeningAddress> address_;
  const int64_t max_connections_;
  // In the order in which a request passes them, the last first.
  std::unique_ptr<Answerer> answerer_;
  std::unique_ptr<HttpRequestCollector> collector_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_HTTP_SERVER_H_
