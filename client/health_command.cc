// attend health: for probes and scripts. Exit code 0 means that the server takes calls.
#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/commands.h"
#include "httplib.h"

namespace attend::client {
namespace {

struct HealthOptions {
  std::string service;
  std::optional<std::string> http_address;  // absent: ask by gRPC
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

// Null for an address that is none: cpp-httplib throws at some of them and takes others for names of hosts.
std::unique_ptr<httplib::Client> HttpClient(absl::string_view address) {
  if (address.empty() || absl::StrContains(address, "/")) return nullptr;
  try {
    auto client = std::make_unique<httplib::Client>(absl::StrCat("http://", address));
    return client->is_valid() ? std::move(client) : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

absl::Status AskHttp(const HealthOptions& options, const Connection& connection) {
  absl::string_view address = *options.http_address;
  absl::ConsumePrefix(&address, "http://");
  absl::ConsumeSuffix(&address, "/");
  const std::unique_ptr<httplib::Client> http = HttpClient(address);
  if (http == nullptr) {
    return UsageError(absl::StrCat("--http: '", *options.http_address, "' is no HTTP address, must be host:port"));
  }
  const auto timeout = absl::ToChronoMicroseconds(connection.timeout.value_or(kProbeTimeout));
  http->set_connection_timeout(timeout);
  http->set_read_timeout(timeout);
  http->set_write_timeout(timeout);
  // The timeouts above count for each read anew; this one is for all of it.
  std::future<httplib::Result> answer = std::async(std::launch::async, [&http] { return http->Get("/readyz"); });
  const bool late = answer.wait_for(timeout) == std::future_status::timeout;
  if (late) http->stop();
  const httplib::Result response = answer.get();
  if (!response) {
    if (response.error() == httplib::Error::Connection) {
      return absl::UnavailableError(absl::StrCat("could not connect to http://", address));
    }
    const std::string reason = late ? absl::StrCat("within ", absl::FormatDuration(absl::FromChrono(timeout)))
                                    : absl::StrCat("(", httplib::to_string(response.error()), ")");
    return absl::UnavailableError(absl::StrCat("no answer from http://", address, "/readyz ", reason));
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
  CLI::App& command =
      commands.Add("health", "Asks whether the server takes calls: exit code 0 only if it does",
                   [options](const Connection& connection) {
                     return options->http_address ? AskHttp(*options, connection) : AskGrpc(*options, connection);
                   });
  CLI::Option* http = command.add_option("--http", options->http_address, "Ask /readyz of this HTTP address instead");
  http->type_name("HOST:PORT");
  command.add_option("--service", options->service, "Ask for this gRPC service rather than the server as a whole")
      ->type_name("NAME")
      ->excludes(http);
}

}  // namespace attend::client
