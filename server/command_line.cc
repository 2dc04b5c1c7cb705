#include "server/command_line.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/version.h"

namespace attend::server {
namespace {

using absl::string_view;

constexpr char kFlagfile[] = "flagfile";
constexpr size_t kHelpColumn = 46;  // where --help tells what a setting does
constexpr char kFooter[] =
    "Each setting is also an environment variable ATTEND_<NAME> (as in ATTEND_GRPC_ADDRESS) and a line name=value of\n"
    "the flagfile; a flag goes before the environment, the environment before the file.\n"
    "Durations are written 500ms, 30s, 1h; sizes 1048576, 512MiB, 50%.";

// A value and where it was found, for messages: "--log_format", "ATTEND_LOG_FORMAT", "attend.conf:12 log_format".
struct Given {
  std::string text;
  std::string source;
};
using GivenSettings = std::map<std::string, Given>;

std::string VariableName(string_view setting) { return absl::StrCat("ATTEND_", absl::AsciiStrToUpper(setting)); }

bool IsSetting(string_view name) {
  const auto table = SettingsTable();
  return std::any_of(table.begin(), table.end(), [&](const Setting& setting) { return setting.name == name; });
}

// What stands on the command line: settings, the flagfile, or a text to print.
struct Flags {
  GivenSettings settings;
  std::optional<std::string> flagfile;
  std::string text;
};

// `values` is where CLI11 puts what it finds.
void AddFlags(CLI::App& app, std::map<std::string, std::string>& values) {
  for (const Setting& setting : SettingsTable()) {
    const std::string flag = absl::StrCat("--", setting.name);
    std::string& value = values[std::string(setting.name)];
    const std::string effect(setting.effect);
    CLI::Option* option = setting.is_switch ? app.add_flag(flag, value, effect) : app.add_option(flag, value, effect);
    option->type_name(setting.is_switch ? "BOOL" : "VALUE")
        ->default_str(std::string(setting.default_text))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  app.add_option("--flagfile", values[kFlagfile], "a file of settings, a line name=value each, # comments")
      ->type_name("PATH")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.get_formatter()->column_width(kHelpColumn);
  app.footer(kFooter);
  app.set_version_flag("--version", absl::StrCat("attend-server ", Version()));
  app.allow_extras();
}

// CLI11 reports by exceptions; they end here.
absl::StatusOr<Flags> ParseFlags(absl::Span<const std::string> arguments) {
  CLI::App app("Scaled dot-product attention as a network service.", "attend-server");
  std::map<std::string, std::string> values;
  Flags flags;
  try {
    AddFlags(app, values);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (const std::vector<std::string> unknown = app.remaining(); !unknown.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", unknown.front(), "; --help lists all"));
    }
    for (const Setting& setting : SettingsTable()) {
      const std::string flag = absl::StrCat("--", setting.name);
      if (app.count(flag) == 0) continue;
      flags.settings[std::string(setting.name)] = {values[std::string(setting.name)], flag};
    }
    if (app.count("--flagfile") > 0) flags.flagfile = values[kFlagfile];
  } catch (const CLI::CallForHelp&) {
    flags.text = app.help();
  } catch (const CLI::CallForVersion& version) {
    flags.text = absl::StrCat(version.what(), "\n");
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return flags;
}

void ReadEnvironment(const Environment& environment, GivenSettings& given) {
  for (const Setting& setting : SettingsTable()) {
    const std::string variable = VariableName(setting.name);
    if (std::optional<std::string> value = environment(variable)) {
      given.insert({std::string(setting.name), {*std::move(value), variable}});
    }
  }
}

// Adds what the file says where nothing was given yet; of two lines for one name the last one holds.
absl::Status ReadFlagfile(const std::string& path, GivenSettings& given) {
  std::ifstream file(path);
  if (!file) return absl::InvalidArgumentError(absl::StrCat("flagfile ", path, " cannot be read"));
  GivenSettings lines;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text.front() == '#') continue;
    const std::pair<string_view, string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    const std::string name(absl::StripAsciiWhitespace(parts.first));
    const std::string place = absl::StrCat(path, ":", number);
    if (text.find('=') == string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": must be name=value, # begins a comment"));
    }
    if (!IsSetting(name))
      return absl::InvalidArgumentError(absl::StrCat(place, ": unknown setting ", absl::CEscape(name)));
    lines[name] = {std::string(absl::StripAsciiWhitespace(parts.second)), absl::StrCat(place, " ", name)};
  }
  if (file.bad()) return absl::InvalidArgumentError(absl::StrCat("flagfile ", path, " cannot be read"));
  given.merge(lines);
  return absl::OkStatus();
}

absl::StatusOr<SettingsDraft> MakeDraft(const GivenSettings& given) {
  SettingsDraft draft;
  for (const Setting& setting : SettingsTable()) {
    const auto found = given.find(std::string(setting.name));
    const Given value = found == given.end() ? Given{std::string(setting.default_text), "default"} : found->second;
    if (absl::Status status = setting.set(value.text, draft); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(value.source, " is '", absl::CEscape(value.text), "', ", status.message()));
    }
  }
  return draft;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string> arguments, const Environment& environment,
                                             const MachineLimits& machine) {
  absl::StatusOr<Flags> flags = ParseFlags(arguments);
  if (!flags.ok()) return flags.status();
  if (!flags->text.empty()) return CommandLine{.settings = {}, .text = flags->text};

  GivenSettings given = std::move(flags->settings);
  ReadEnvironment(environment, given);
  if (!flags->flagfile) flags->flagfile = environment(VariableName(kFlagfile));
  if (flags->flagfile) {
    if (absl::Status status = ReadFlagfile(*flags->flagfile, given); !status.ok()) return status;
  }
  absl::StatusOr<SettingsDraft> draft = MakeDraft(given);
  if (!draft.ok()) return draft.status();
  absl::StatusOr<Settings> settings = Complete(*std::move(draft), machine);
  if (!settings.ok()) return settings.status();
  return CommandLine{.settings = *std::move(settings), .text = ""};
}

}  // namespace attend::server
