// httplib parses requests, routes them and writes answers. Connections are not its business: it would give each a
// thread for as long as its sender likes, so that some slow ones keep all others waiting. They are accepted by
// ConnectionAcceptor and read by HttpRequestCollector; httplib sees requests that are complete.
#include "server/http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "httplib.h"

namespace attend::server {
namespace {

// More than one, since /readyz may wait for the gRPC port.
constexpr int kThreads = 16;
constexpr std::chrono::seconds kWriteTimeout(5);
// What a client has sent beyond its headers and is thrown away.
constexpr int kMaxIgnoredReads = 16;

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kMetricsText[] = "text/plain; version=0.0.4; charset=utf-8";

// A request that has been read, and the connection that its answer is written to.
class RequestStream : public httplib::Stream {
 public:
  RequestStream(const Descriptor& connection, absl::string_view request)
      : connection_(connection), rest_(request), deadline_(std::chrono::steady_clock::now() + kWriteTimeout) {}

  bool is_readable() const override { return !rest_.empty(); }
  bool is_writable() const override { return AwaitWritable(); }

  ssize_t read(char* bytes, size_t size) override {
    const size_t count = rest_.copy(bytes, size);
    rest_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, size_t size) override {
    while (AwaitWritable()) {
      const ssize_t count = send(connection_.number(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return count;
    }
    return -1;
  }

  // Nobody asks.
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return connection_.number(); }

 private:
  bool AwaitWritable() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    pollfd entry{.fd = connection_.number(), .events = POLLOUT, .revents = 0};
    return left.count() > 0 && poll(&entry, 1, static_cast<int>(left.count())) > 0;
  }

  const Descriptor& connection_;
  absl::string_view rest_;
  const std::chrono::steady_clock::time_point deadline_;
};

void AnswerReadiness(const absl::Status& ready, httplib::Response& response) {
  response.status = ready.ok() ? 200 : 503;
  response.set_content(ready.ok() ? "ready\n" : absl::StrCat("not ready: ", ready.message(), "\n"), kPlainText);
}

// Called between parsing and routing.
//
// Other methods than GET have bodies, which nobody waits for here. And httplib applies a Range to every body,
// overlapping ranges as often as they are asked for: 8 KiB of header would make 31 MB of a page. Answers here are
// whole, as RFC 9110 (14.2) lets them be. The request is httplib's own object and not const: this is the one place
// between its parsing and its use.
httplib::Server::HandlerResponse Screen(const httplib::Request& request, httplib::Response& response) {
  const_cast<httplib::Request&>(request).ranges.clear();  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  if (request.method == "GET" || request.method == "HEAD") return httplib::Server::HandlerResponse::Unhandled;
  response.status = 405;
  response.set_header("Allow", "GET, HEAD");
  return httplib::Server::HandlerResponse::Handled;
}

// A connection that is closed while something unread lies in it is reset, and its answer lost.
void FinishWriting(const Descriptor& connection) {
  shutdown(connection.number(), SHUT_WR);
  std::array<char, 4096> ignored;
  for (int i = 0; i < kMaxIgnoredReads; ++i) {
    if (recv(connection.number(), ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace

// Answers requests on threads of its own.
class HttpServer::Answerer : private httplib::Server {
 public:
  explicit Answerer(HttpServer::Options options) {
    set_pre_routing_handler(&Screen);
    Get("/livez",
        [](const httplib::Request&, httplib::Response& response) { response.set_content("alive\n", kPlainText); });
    Get("/readyz", [ready = std::move(options.ready)](const httplib::Request&, httplib::Response& response) {
      AnswerReadiness(ready(), response);
    });
    Get("/metrics", [metrics = std::move(options.metrics)](const httplib::Request&, httplib::Response& response) {
      response.set_content(metrics(), kMetricsText);
    });
  }

  ~Answerer() override { threads_.shutdown(); }

  void Enqueue(Descriptor connection, std::string request) {
    // A std::function can be copied, a Descriptor cannot; the pool runs every task, at its end too.
    threads_.enqueue(
        [this, number = connection.Release(), request = std::move(request)] { Answer(Descriptor(number), request); });
  }

 private:
  void Answer(const Descriptor& connection, const std::string& request) {
    RequestStream stream(connection, request);
    bool closed = false;
    process_request(stream, /*close_connection=*/true, closed, nullptr);
    FinishWriting(connection);
  }

  httplib::ThreadPool threads_{kThreads};
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(std::unique_ptr<ListeningAddress> address,
                                                               Options options) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(address), std::move(options)));
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

HttpServer::HttpServer(std::unique_ptr<ListeningAddress> address, Options options)
    : address_(std::move(address)),
      max_connections_(options.max_connections),
      answerer_(std::make_unique<Answerer>(std::move(options))) {}

HttpServer::~HttpServer() = default;

absl::Status HttpServer::Start() {
  absl::StatusOr<std::unique_ptr<HttpRequestCollector>> collector =
      HttpRequestCollector::Create({.max_waiting = static_cast<size_t>(std::max<int64_t>(max_connections_ / 2, 1))},
                                   [this](Descriptor connection, std::string request) {
                                     answerer_->Enqueue(std::move(connection), std::move(request));
                                   });
  if (!collector.ok()) return collector.status();
  collector_ = *std::move(collector);
  std::vector<int> listeners;
  for (const Descriptor& socket : address_->sockets()) listeners.push_back(socket.number());
  absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> acceptor = ConnectionAcceptor::Create(
      std::move(listeners), {.max_connections = max_connections_},
      [this](Descriptor connection, int /*listener*/) { collector_->Add(std::move(connection)); });
  if (!acceptor.ok()) return acceptor.status();
  acceptor_ = *std::move(acceptor);
  return absl::OkStatus();
}

}  // namespace attend::server
