#include "server/settings_table.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/socket_address.h"

namespace attend::server {
namespace {

using absl::string_view;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultMaxMessageBytes = 256 * kMiB;
constexpr int64_t kMinMemoryBudget = kMiB;
constexpr int64_t kMinMessageBytes = 1024;
constexpr int64_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();  // gRPC's own limit
constexpr int kMaxCount = 1000000;

absl::StatusOr<std::vector<std::string>> ParseAddresses(string_view text) {
  std::vector<std::string> addresses;
  for (const string_view address : absl::StrSplit(text, ',')) {
    if (absl::Status status = CheckSocketAddress(address); !status.ok()) return status;
    addresses.emplace_back(address);
  }
  return addresses;
}

absl::StatusOr<std::string> ParseHttpAddress(string_view text) {
  if (absl::Status status = CheckSocketAddress(text); !status.ok()) return status;
  if (absl::StartsWith(text, "unix:")) return absl::InvalidArgumentError("must be host:port or [address]:port");
  return std::string(text);
}

absl::StatusOr<int> ParseCount(string_view text, int least) {
  int count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < least || count > kMaxCount) {
    return absl::InvalidArgumentError(absl::StrCat("must be a whole number in [", least, ", ", kMaxCount, "]"));
  }
  return count;
}

absl::StatusOr<bool> ParseSwitch(string_view text) {
  bool value = false;
  if (!absl::SimpleAtob(text, &value)) return absl::InvalidArgumentError("must be true or false");
  return value;
}

absl::StatusOr<absl::Duration> ParseFiniteDuration(string_view text) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (!duration.ok() || *duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError("must be a duration such as 500ms, 30s or 1h");
  }
  return duration;
}

template <typename T>
using Names = std::vector<std::pair<string_view, T>>;

const Names<LogFormat>& LogFormats() {
  static const auto* names = new Names<LogFormat>{{"text", LogFormat::kText}, {"json", LogFormat::kJson}};
  return *names;
}

const Names<LogLevel>& LogLevels() {
  static const auto* names = new Names<LogLevel>{{"debug", LogLevel::kDebug},
                                                 {"info", LogLevel::kInfo},
                                                 {"warning", LogLevel::kWarning},
                                                 {"error", LogLevel::kError}};
  return *names;
}

template <typename T>
absl::StatusOr<T> ParseName(string_view text, const Names<T>& names) {
  std::vector<string_view> known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known.push_back(name);
  }
  return absl::InvalidArgumentError(absl::StrCat("must be one of ", absl::StrJoin(known, ", ")));
}

template <typename T>
std::string NameOf(T value, const Names<T>& names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.second == value; });
  return found == names.end() ? "" : std::string(found->first);
}

// Puts a parsed value where it belongs.
template <typename Parsed, typename Target>
absl::Status Assign(absl::StatusOr<Parsed> parsed, Target& target) {
  if (!parsed.ok()) return parsed.status();
  target = *std::move(parsed);
  return absl::OkStatus();
}

Setting DurationSetting(string_view name, string_view default_text, absl::Duration Settings::*member,
                        string_view effect) {
  return {name, default_text, effect,
          [member](string_view text, SettingsDraft& draft) {
            return Assign(ParseFiniteDuration(text), draft.settings.*member);
          },
          [member](const Settings& settings) { return DescribeDuration(settings.*member); }};
}

// One that can be "off".
Setting OptionalDurationSetting(string_view name, string_view default_text, absl::Duration Settings::*member,
                                string_view effect) {
  Setting setting = DurationSetting(name, default_text, member, effect);
  setting.set = [member](string_view text, SettingsDraft& draft) {
    return Assign(ParseDuration(text), draft.settings.*member);
  };
  return setting;
}

Setting CountSetting(string_view name, string_view default_text, int Settings::*member, int least, string_view effect) {
  return {name, default_text, effect,
          [member, least](string_view text, SettingsDraft& draft) {
            return Assign(ParseCount(text, least), draft.settings.*member);
          },
          [member](const Settings& settings) { return absl::StrCat(settings.*member); }};
}

Setting SwitchSetting(string_view name, string_view default_text, bool Settings::*member, string_view effect) {
  return {
      name,
      default_text,
      effect,
      [member](string_view text, SettingsDraft& draft) { return Assign(ParseSwitch(text), draft.settings.*member); },
      [member](const Settings& settings) { return std::string(settings.*member ? "true" : "false"); },
      true};
}

// A file's path, or nothing.
Setting PathSetting(string_view name, std::string Settings::*member, string_view effect) {
  return {name, "", effect,
          [member](string_view text, SettingsDraft& draft) {
            draft.settings.*member = std::string(text);
            return absl::OkStatus();
          },
          [member](const Settings& settings) { return settings.*member; }};
}

std::vector<Setting> AddressSettings() {
  return {
      {"grpc_address", "127.0.0.1:8001", "where gRPC listens: a list separated by commas, also unix:/path, [::1]:8001",
       [](string_view text, SettingsDraft& draft) {
         return Assign(ParseAddresses(text), draft.settings.grpc_addresses);
       },
       [](const Settings& settings) { return absl::StrJoin(settings.grpc_addresses, ","); }},
      {"http_address", "127.0.0.1:8002", "where /livez, /readyz and /metrics are served",
       [](string_view text, SettingsDraft& draft) {
         return Assign(ParseHttpAddress(text), draft.settings.http_address);
       },
       [](const Settings& settings) { return settings.http_address; }},
  };
}

std::vector<Setting> BudgetSettings() {
  return {
      CountSetting("compute_threads", "0", &Settings::compute_threads, 0,
                   "threads that compute; 0: as many as processors this process may use"),
      {"memory_budget", "50%", "bytes that admitted requests may hold together; % is of what this process may use",
       [](string_view text, SettingsDraft& draft) { return Assign(ByteSize::Parse(text), draft.memory_budget); },
       [](const Settings& settings) { return FormatBytes(settings.memory_budget); }},
      {"receive_budget", "25%",
       "bytes of messages being received, half of them at most by one client; % is of memory_budget",
       [](string_view text, SettingsDraft& draft) { return Assign(ByteSize::Parse(text), draft.receive_budget); },
       [](const Settings& settings) { return FormatBytes(settings.receive_budget); }},
      {"receive_timeout", "auto",
       "how long receiving a message may take; auto: 60s, or 10s + 1s per MiB where its size is announced; 0: no time",
       [](string_view text, SettingsDraft& draft) {
         if (text != "auto") return Assign(ParseFiniteDuration(text), draft.settings.receive_timeout);
         draft.settings.receive_timeout.reset();
         return absl::OkStatus();
       },
       [](const Settings& settings) {
         return settings.receive_timeout ? DescribeDuration(*settings.receive_timeout) : std::string("auto");
       }},
      {"max_message_bytes", "auto",
       "the longest request and response; % is of memory_budget; auto: the least of 256MiB, 25% and receive_budget",
       [](string_view text, SettingsDraft& draft) {
         if (text != "auto") return Assign(ByteSize::Parse(text), draft.max_message_bytes);
         draft.max_message_bytes.reset();
         return absl::OkStatus();
       },
       [](const Settings& settings) { return FormatBytes(settings.max_message_bytes); }},
      CountSetting(
          "max_queued_requests", "512", &Settings::max_queued_requests, 1,
          "calls that may wait, to be received or for memory, together; one more is refused: RESOURCE_EXHAUSTED"),
  };
}

std::vector<Setting> ConnectionSettings() {
  return {
      CountSetting("max_connections", "1024", &Settings::max_connections, 1,
                   "gRPC connections at a time; one more is closed at once"),
      CountSetting("max_streams_per_connection", "1024", &Settings::max_streams_per_connection, 1,
                   "calls at a time on one connection"),
      {"max_metadata_bytes", "16KiB", "the largest metadata of a call",
       [](string_view text, SettingsDraft& draft) {
         absl::StatusOr<ByteSize> size = ByteSize::Parse(text);
         if (!size.ok()) return size.status();
         draft.settings.max_metadata_bytes = size->Of(0);
         if (draft.settings.max_metadata_bytes >= 1024 && draft.settings.max_metadata_bytes <= kMiB) {
           return absl::OkStatus();
         }
         return absl::InvalidArgumentError("must be in [1KiB, 1MiB]");
       },
       [](const Settings& settings) { return FormatBytes(settings.max_metadata_bytes); }},
      DurationSetting("handshake_timeout", "10s", &Settings::handshake_timeout,
                      "how long a new connection may take to say HTTP/2"),
      DurationSetting("min_ping_interval", "5s", &Settings::min_ping_interval,
                      "clients that ping more often than this are disconnected"),
      OptionalDurationSetting("max_connection_idle", "1h", &Settings::max_connection_idle,
                              "a connection without calls is closed after this long (0: at once), or off"),
      OptionalDurationSetting("max_connection_age", "off", &Settings::max_connection_age,
                              "a connection is closed after this long (0: at once), its calls finish, or off"),
  };
}

std::vector<Setting> LifeCycleSettings() {
  return {
      DurationSetting("drain_delay", "0", &Settings::drain_delay,
                      "after SIGTERM: still serving for this long, while health says NOT_SERVING"),
      DurationSetting("drain_timeout", "8s", &Settings::drain_timeout,
                      "after drain_delay: how long calls in flight may take to finish"),
      DurationSetting("stuck_after", "30s", &Settings::stuck_after,
                      "/readyz fails when the oldest running job has not advanced for this long; 0: whenever one runs"),
      PathSetting("ready_file", &Settings::ready_file,
                  "a JSON file with the addresses and the process id, written when ready, removed at exit"),
  };
}

std::vector<Setting> SecuritySettings() {
  return {
      PathSetting("tls_cert", &Settings::tls_cert,
                  "PEM file of the server's certificate and its chain: gRPC by TLS alone"),
      PathSetting("tls_key", &Settings::tls_key, "PEM file of the key of tls_cert"),
      PathSetting("tls_client_ca", &Settings::tls_client_ca,
                  "PEM file of the authorities of clients' certificates: without one only health answers"),
      SwitchSetting("health_requires_client_certificate", "false", &Settings::health_requires_client_certificate,
                    "connections without a client's certificate are refused, those of health probes too"),
      PathSetting("token_file", &Settings::token_file,
                  "file of lines name:token: calls other than health must bring one of the tokens"),
  };
}

std::vector<Setting> BehaviourSettings() {
  return {
      {"max_instruction_set", "", "use none beyond avx2, avx512, avx512_bf16 or amx; empty: all that there are",
       [](string_view text, SettingsDraft& draft) {
         draft.settings.max_instruction_set.reset();
         return text.empty() ? absl::OkStatus()
                             : Assign(core::ParseInstructionSet(text), draft.settings.max_instruction_set);
       },
       [](const Settings& settings) {
         return settings.max_instruction_set ? std::string(core::InstructionSetName(*settings.max_instruction_set))
                                             : "";
       }},
      SwitchSetting("allow_compression", "false", &Settings::allow_compression,
                    "accept messages compressed with gzip or deflate"),
      SwitchSetting("reflection", "true", &Settings::reflection, "serve gRPC server reflection"),
      {"log_format", "text", "text or json",
       [](string_view text, SettingsDraft& draft) {
         return Assign(ParseName(text, LogFormats()), draft.settings.log_format);
       },
       [](const Settings& settings) { return NameOf(settings.log_format, LogFormats()); }},
      {"log_level", "info", "debug, info, warning or error",
       [](string_view text, SettingsDraft& draft) {
         return Assign(ParseName(text, LogLevels()), draft.settings.log_level);
       },
       [](const Settings& settings) { return NameOf(settings.log_level, LogLevels()); }},
      CountSetting("log_requests_per_second", "100", &Settings::log_requests_per_second, 0,
                   "request lines logged in a second, 0: none; of more, the others are only counted"),
  };
}

std::vector<Setting> MakeTable() {
  std::vector<Setting> table;
  for (std::vector<Setting> group : {AddressSettings(), BudgetSettings(), ConnectionSettings(), LifeCycleSettings(),
                                     SecuritySettings(), BehaviourSettings()}) {
    std::move(group.begin(), group.end(), std::back_inserter(table));
  }
  return table;
}

absl::Status CheckRange(string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", FormatBytes(value), ", must be in [", least, ", ", most, "] bytes"));
}

}  // namespace

absl::Span<const Setting> SettingsTable() {
  static const auto* table = new std::vector<Setting>(MakeTable());
  return *table;
}

absl::StatusOr<Settings> Complete(SettingsDraft draft, const MachineLimits& machine) {
  Settings& settings = draft.settings;
  if (settings.compute_threads == 0) settings.compute_threads = std::max(1, machine.cpus);
  settings.memory_budget = draft.memory_budget.Of(machine.memory_bytes);
  settings.receive_budget = draft.receive_budget.Of(settings.memory_budget);
  settings.max_message_bytes =
      draft.max_message_bytes
          ? draft.max_message_bytes->Of(settings.memory_budget)
          : std::min({kDefaultMaxMessageBytes, settings.memory_budget / 4, settings.receive_budget});
  const absl::Status checks[] = {
      CheckRange("memory_budget", settings.memory_budget, kMinMemoryBudget, std::numeric_limits<int64_t>::max()),
      CheckRange("receive_budget", settings.receive_budget, kMinMessageBytes, std::numeric_limits<int64_t>::max()),
      CheckRange("max_message_bytes", settings.max_message_bytes, kMinMessageBytes, kMaxMessageBytes),
      settings.Validate(),
  };
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  return std::move(draft.settings);
}

std::string DescribeSettings(const Settings& settings) {
  return absl::StrJoin(SettingsTable(), " ", [&](std::string* out, const Setting& setting) {
    absl::StrAppend(out, setting.name, "=", setting.get(settings));
  });
}

}  // namespace attend::server
