// How each setting is written, what it is by default and what it does: the one list from which the command line, the
// environment, the flagfile, --help and the line of effective settings are made.
#ifndef ATTEND_SERVER_SETTINGS_TABLE_H_
#define ATTEND_SERVER_SETTINGS_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/machine_limits.h"
#include "server/quantity.h"
#include "server/settings.h"

namespace attend::server {

// Settings being read: sizes may be shares of what is known only at the end.
struct SettingsDraft {
  Settings settings;
  ByteSize memory_budget;
  ByteSize receive_budget;
  std::optional<ByteSize> max_message_bytes;  // absent: auto
};

struct Setting {
  absl::string_view name;
  absl::string_view default_text;  // as it would be written
  absl::string_view effect;        // one line
  // INVALID_ARGUMENT with "must be ..." if `text` is no value of this setting.
  std::function<absl::Status(absl::string_view text, SettingsDraft& draft)> set;
  // The effective value, as it would be written.
  std::function<std::string(const Settings& settings)> get;
  bool is_switch = false;  // true or false; the bare flag means true
};

// All settings, in the order in which --help shows them.
absl::Span<const Setting> SettingsTable();

// Resolves shares, fills in what is derived, and validates.
absl::StatusOr<Settings> Complete(SettingsDraft draft, const MachineLimits& machine);

// "name=value name=value ...", every setting.
std::string DescribeSettings(const Settings& settings);

}  // namespace attend::server

#endif  // ATTEND_SERVER_SETTINGS_TABLE_H_
