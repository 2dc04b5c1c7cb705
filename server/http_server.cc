#include "server/http_server.h"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "server/socket_address.h"

namespace attend::server {
namespace {

// Two hundred half-sent requests must not keep a probe waiting: each holds a thread for at most the read timeout.
constexpr int kThreads = 128;
constexpr int kReadTimeoutSeconds = 1;
constexpr int kWriteTimeoutSeconds = 5;
constexpr size_t kMaxBodyBytes = 4096;  // of requests, which need none

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kMetricsText[] = "text/plain; version=0.0.4; charset=utf-8";

// httplib's own default is SO_REUSEPORT, with which a second server would take half of the first one's calls.
void SetSocketOptions(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

void AnswerReadiness(const absl::Status& ready, httplib::Response& response) {
  response.status = ready.ok() ? 200 : 503;
  response.set_content(ready.ok() ? "ready\n" : absl::StrCat("not ready: ", ready.message(), "\n"), kPlainText);
}

// httplib applies a Range to every body, overlapping ranges as often as they are asked for: 8 KiB of header would make
// 31 MB of a page. Answers here are whole, as RFC 9110 (14.2) lets them be. The request is httplib's own object and not
// const: this is the one place between its parsing and its use.
httplib::Server::HandlerResponse IgnoreRanges(const httplib::Request& request, httplib::Response& /*response*/) {
  const_cast<httplib::Request&>(request).ranges.clear();  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return httplib::Server::HandlerResponse::Unhandled;
}

void Configure(httplib::Server& server, HttpServer::Pages pages) {
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_socket_options(&SetSocketOptions);
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(kReadTimeoutSeconds);
  server.set_write_timeout(kWriteTimeoutSeconds);
  server.set_payload_max_length(kMaxBodyBytes);
  server.set_pre_routing_handler(&IgnoreRanges);
  server.Get("/livez",
             [](const httplib::Request&, httplib::Response& response) { response.set_content("alive\n", kPlainText); });
  server.Get("/readyz", [ready = std::move(pages.ready)](const httplib::Request&, httplib::Response& response) {
    AnswerReadiness(ready(), response);
  });
  server.Get("/metrics", [metrics = std::move(pages.metrics)](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics(), kMetricsText);
  });
}

}  // namespace

class HttpServer::Listener {
 public:
  explicit Listener(Pages pages) { Configure(server_, std::move(pages)); }
  ~Listener() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  // The port, or nothing with errno as the reason.
  std::optional<int> Bind(const std::string& host, int port) {
    errno = 0;
    if (port != 0) return server_.bind_to_port(host, port) ? std::optional(port) : std::nullopt;
    const int free_port = server_.bind_to_any_port(host);
    return free_port > 0 ? std::optional(free_port) : std::nullopt;
  }

  // Returns when the server accepts: httplib ignores a stop() that comes before that.
  void Start() {
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    while (!server_.is_running() && !ended_) std::this_thread::yield();
  }

 private:
  httplib::Server server_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(const std::string& address, Pages pages) {
  const SocketAddress parsed = ParseSocketAddress(address);
  auto listener = std::make_unique<Listener>(std::move(pages));
  const std::optional<int> port = listener->Bind(parsed.host, parsed.port);
  if (!port) {
    const std::string reason = errno != 0 ? std::strerror(errno) : "no such address";
    return absl::UnavailableError(absl::StrCat("http_address ", address, " cannot be listened on: ", reason));
  }
  listener->Start();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener), WithPort(parsed, *port)));
}

HttpServer::HttpServer(std::unique_ptr<Listener> listener, std::string address)
    : listener_(std::move(listener)), address_(std::move(address)) {}

HttpServer::~HttpServer() = default;

}  // namespace attend::server
