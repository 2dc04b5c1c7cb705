// attend health: for probes and scripts. Exit code 0 means that the server takes calls.
#include <CLI/CLI.hpp>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "httplib.h"

namespace attend::client {
namespace {

struct HealthOptions {
  std::string service;
  std::string http_address;  // empty: ask by gRPC
};

absl::Status AskGrpc(const HealthOptions& options, const Connection& connection) {
  const absl::StatusOr<std::unique_ptr<Client>> client = connection.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<Health> health = (*client)->CheckHealth(options.service, connection.Call(kProbeTimeout));
  if (!health.ok()) return health.status();
  if (*health != Health::kServing) {
    return absl::UnavailableError(absl::StrCat(connection.address, " is ", HealthName(*health)));
  }
  std::cout << HealthName(*health) << "\n";
  return absl::OkStatus();
}

absl::Status AskHttp(const HealthOptions& options, const Connection& connection) {
  const std::string& address = options.http_address;
  httplib::Client http(absl::StrContains(address, "://") ? address : absl::StrCat("http://", address));
  if (!http.is_valid())
    return UsageError(absl::StrCat("--http: '", address, "' is no HTTP address, must be host:port"));
  const auto timeout = absl::ToChronoMicroseconds(connection.timeout.value_or(kProbeTimeout));
  http.set_connection_timeout(timeout);
  http.set_read_timeout(timeout);
  http.set_write_timeout(timeout);
  // The timeouts above count for each read anew; this one is for all of it.
  std::future<httplib::Result> answer = std::async(std::launch::async, [&http] { return http.Get("/readyz"); });
  if (answer.wait_for(timeout) == std::future_status::timeout) http.stop();
  const httplib::Result response = answer.get();
  if (!response) {
    if (response.error() == httplib::Error::Connection) {
      return absl::UnavailableError(absl::StrCat("could not connect to http://", address));
    }
    return absl::UnavailableError(absl::StrCat("no answer from http://", address, "/readyz within ",
                                               absl::FormatDuration(absl::FromChrono(timeout)), " (",
                                               httplib::to_string(response.error()), ")"));
  }
  const std::string body(absl::StripAsciiWhitespace(response->body));
  if (response->status != 200) {
    return absl::UnavailableError(absl::StrCat("http://", address, "/readyz answers ", response->status, ": ", body));
  }
  std::cout << body << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddHealthCommand(Commands& commands) {
  const auto options = std::make_shared<HealthOptions>();  // shared: filled while parsing, read when run
  CLI::App& command = commands.Add("health", "Asks whether the server takes calls: exit code 0 only if it does",
                                   [options](const Connection& connection) {
                                     return options->http_address.empty() ? AskGrpc(*options, connection)
                                                                          : AskHttp(*options, connection);
                                   });
  CLI::Option* http = command.add_option("--http", options->http_address, "Ask /readyz of this HTTP address instead");
  http->type_name("HOST:PORT");
  command.add_option("--service", options->service, "Ask for this gRPC service rather than the server as a whole")
      ->type_name("NAME")
      ->excludes(http);
}

}  // namespace attend::client
