// attend info: what the server is and can do.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/byte_size.h"
#include "client/commands.h"

namespace attend::client {
namespace {

using attend::v1::GetServerInfoResponse;

constexpr int kNameWidth = 20;
constexpr size_t kLineWidth = 78;

std::string TypeName(int type) {
  switch (type) {
    case attend::v1::DATA_TYPE_FLOAT32:
      return "f32";
    case attend::v1::DATA_TYPE_BFLOAT16:
      return "bf16";
    case attend::v1::DATA_TYPE_FLOAT16:
      return "f16";
    default:
      return attend::v1::DataType_Name(static_cast<attend::v1::DataType>(type));
  }
}

std::string Row(absl::string_view name, absl::string_view text) {
  return absl::StrFormat("  %-*s%s\n", kNameWidth, name, text);
}

// A row whose words are wrapped into as many lines as they need.
template <typename Words>
std::string WordsRow(absl::string_view name, const Words& words) {
  std::string text;
  std::string line;
  for (const auto& word : words) {
    if (!line.empty() && 2 + kNameWidth + line.size() + 2 + word.size() > kLineWidth) {
      absl::StrAppend(&text, Row(text.empty() ? name : "", absl::StrCat(line, ",")));
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : ", ", word);
  }
  return absl::StrCat(text, Row(text.empty() ? name : "", line));
}

std::string ToText(const GetServerInfoResponse& server, const std::string& address) {
  std::vector<std::string> types;
  for (const int type : server.native_types()) types.push_back(TypeName(type));
  return absl::StrCat("attend-server ", server.version(), " at ", address, "\n", Row("oneDNN", server.onednn_version()),
                      Row("instruction set", server.instruction_set()), WordsRow("native types", types),
                      Row("compute threads", absl::StrCat(server.compute_threads())),
                      Row("multiply-adds/s", absl::StrFormat("%.4g G", server.multiply_adds_per_second() / 1e9)),
                      Row("memory budget", ByteSize(server.memory_budget_bytes())),
                      Row("largest message", ByteSize(server.max_message_bytes())),
                      Row("largest head_dim", absl::StrCat(server.max_head_dim())),
                      WordsRow("options", server.supported_options()), WordsRow("front ends", server.front_ends()));
}

nlohmann::ordered_json ToJson(const GetServerInfoResponse& server) {
  std::vector<std::string> types;
  for (const int type : server.native_types())
    types.push_back(attend::v1::DataType_Name(static_cast<attend::v1::DataType>(type)));
  return {{"version", server.version()},
          {"onednn_version", server.onednn_version()},
          {"instruction_set", server.instruction_set()},
          {"native_types", types},
          {"compute_threads", server.compute_threads()},
          {"memory_budget_bytes", server.memory_budget_bytes()},
          {"max_message_bytes", server.max_message_bytes()},
          {"max_head_dim", server.max_head_dim()},
          {"supported_options",
           std::vector<std::string>(server.supported_options().begin(), server.supported_options().end())},
          {"front_ends", std::vector<std::string>(server.front_ends().begin(), server.front_ends().end())},
          {"multiply_adds_per_second", server.multiply_adds_per_second()}};
}

absl::Status ShowServer(bool as_json, const Connection& connection) {
  const absl::StatusOr<std::unique_ptr<Client>> client = connection.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<GetServerInfoResponse> server = (*client)->GetServerInfo(connection.Call(kProbeTimeout));
  if (!server.ok()) return server.status();
  std::cout << (as_json ? ToJson(*server).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                        : ToText(*server, connection.address));
  return absl::OkStatus();
}

}  // namespace

void AddServerInfoCommand(Commands& commands) {
  const auto as_json = std::make_shared<bool>(false);  // shared: filled while parsing, read when run
  CLI::App& command =
      commands.Add("info", "Shows what the server is and can do",
                   [as_json](const Connection& connection) { return ShowServer(*as_json, connection); });
  command.add_flag("--json", *as_json, "As JSON, under the names of GetServerInfoResponse");
}

}  // namespace attend::client
