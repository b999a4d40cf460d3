#include "server/config/configuration.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/net/pem.h"

namespace quantd {
namespace {

constexpr std::string_view kPrefix = "QUANTD_";
// Settings whose value is a list, which a file may write as one.
constexpr std::string_view kLists[] = {"device"};

std::string NameOf(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return names.empty() ? "" : names.front();
}

std::string VariableOf(const CLI::Option& option) {
  std::string name = NameOf(option);
  std::replace(name.begin(), name.end(), '-', '_');
  return std::string(kPrefix) + absl::AsciiStrToUpper(name);
}

bool IsFlag(const CLI::Option& option) {
  return option.get_expected_max() == 0;
}

std::string Joined(const std::vector<std::string>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

// QUANTD_SERVICE_HOST, QUANTD_SERVICE_PORT..., QUANTD_PORT,
// QUANTD_PORT_50151_TCP..., also of services like quantd-metrics.
bool IsOfKubernetes(std::string_view name) {
  if (name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT") ||
      name.find("_SERVICE_PORT") != std::string_view::npos) {
    return true;
  }
  const size_t port = name.rfind("_PORT_");
  return port != std::string_view::npos && port + 6 < name.size() &&
         absl::ascii_isdigit(name[port + 6]);
}

// The first line, from 1 on, with a # in quotes or a quote without its end; 0:
// there is none. CLI11 takes what follows a # for a comment wherever it is, and
// half a value for the whole.
int LineOfBadQuotes(std::string_view text) {
  int line = 1;
  char quote = 0;
  bool in_comment = false;
  for (const char c : text) {
    if (c == '\n') {
      if (quote != 0) return line;
      ++line;
      in_comment = false;
    } else if (in_comment) {
      continue;
    } else if (c == '#') {
      if (quote != 0) return line;
      in_comment = true;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
  }
  return quote != 0 ? line : 0;
}

std::string Quoted(const Setting& setting) {
  const std::string& v = setting.value;
  const bool number = v.find_first_not_of("0123456789") == std::string::npos;
  return number || v == "true" || v == "false" ? v : '"' + v + '"';
}

}  // namespace

Configuration::Configuration(CLI::App* app, std::string actions)
    : app_(app), actions_(std::move(actions)) {}

bool Configuration::IsSetting(const CLI::Option& option) const {
  const std::string name = NameOf(option);
  return !name.empty() && name != "help" && name != "version" &&
         option.get_group() != actions_;
}

absl::Status Configuration::Set(CLI::Option* option, const std::string& value,
                                const std::string& where) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", where, why));
  };
  std::string text = value;
  if (IsFlag(*option)) {
    if (value == "1") text = "true";
    if (value == "0") text = "false";
    if (text != "true" && text != "false") {
      return refuse("expected true or false");
    }
  }
  try {
    option->add_result(text);
    option->run_callback();
  } catch (const CLI::Error& e) {
    return refuse(e.what());
  }
  return absl::OkStatus();
}

absl::Status Configuration::ReadLayers(const std::string& file_flag) {
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() > 0) sources_[option] = "flag";
  }
  CLI::Option* const file = app_->get_option(file_flag);
  if (const char* named = std::getenv(VariableOf(*file).c_str());
      named != nullptr && *named != '\0' && file->count() == 0) {
    if (auto s = Set(file, named, VariableOf(*file)); !s.ok()) return s;
  }
  if (auto s = ReadEnvironment(); !s.ok()) return s;
  if (file->count() == 0) return absl::OkStatus();
  return ReadFile(file->as<std::string>());
}

absl::Status Configuration::ReadEnvironment() {
  for (CLI::Option* option : app_->get_options()) {
    if (!IsSetting(*option) || option->count() > 0) continue;
    const std::string variable = VariableOf(*option);
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    if (auto s = Set(option, value, variable); !s.ok()) return s;
    sources_[option] = "environment";
  }
  return absl::OkStatus();
}

absl::Status Configuration::ReadFile(const std::string& path) {
  const std::string what = fmt::format("--config {}", path);
  const auto text = security::ReadSmallFile(what, path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const auto refuse = [&](std::string_view key, std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}: {}", what, key, why));
  };
  if (const int line = LineOfBadQuotes(*text); line > 0) {
    return refuse(fmt::format("line {}", line),
                  "a quote without its end, or with a # in it, which cannot be "
                  "read from a file; use the flag or the variable for such a "
                  "value");
  }
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream stream(*text);
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const CLI::Error& e) {
    return refuse("cannot be understood", e.what());
  }
  std::set<std::string> seen;
  for (const CLI::ConfigItem& item : items) {
    if (!item.parents.empty()) {
      return refuse(fmt::format("{}", fmt::join(item.parents, ".")),
                    "there are no sections and no keys with dots");
    }
    CLI::Option* const option = app_->get_option_no_throw("--" + item.name);
    if (option == nullptr || !IsSetting(*option)) {
      return refuse(item.name, "no such setting; quantd --help lists them");
    }
    const bool list = std::count(std::begin(kLists), std::end(kLists),
                                 std::string_view(item.name)) > 0;
    // Two lines one after the other with the same key come as one item.
    if (!seen.insert(item.name).second || (item.inputs.size() > 1 && !list)) {
      return refuse(item.name, "given more than once");
    }
    if (item.inputs.empty() || item.inputs.front().empty()) {
      return refuse(item.name, "has no value");
    }
    // An array goes on over lines, their comments and all, to the file's end
    // if need be.
    const std::string value = Joined(item.inputs);
    if (value.find('#') != std::string::npos ||
        std::ranges::any_of(value, absl::ascii_iscntrl)) {
      return refuse(item.name,
                    "a # or a control character in its value; an array must "
                    "end in its own line");
    }
    // What stands in the file must be right, even where it does not count.
    const bool counts = option->count() == 0;
    const std::vector<std::string> above = option->results();
    option->clear();
    if (auto s = Set(option, value, fmt::format("{}: {}", what, item.name));
        !s.ok()) {
      return s;
    }
    if (counts) {
      sources_[option] = "file";
      continue;
    }
    option->clear();
    if (auto s = Set(option, Joined(above), item.name); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

std::vector<Setting> Configuration::Settings() const {
  std::vector<Setting> settings;
  for (const CLI::Option* option : app_->get_options()) {
    if (!IsSetting(*option)) continue;
    Setting setting{NameOf(*option), option->get_default_str(), "default"};
    if (const auto source = sources_.find(option); source != sources_.end()) {
      setting.value = Joined(option->results());
      setting.source = source->second;
    } else if (IsFlag(*option)) {
      setting.value = "false";
    }
    if (LooksLikeSecret(setting.value)) setting.value = "***";
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<std::string> Configuration::UnknownEnvironment() const {
  std::set<std::string, std::less<>> known = {"QUANTD_SERVER"};
  for (const CLI::Option* option : app_->get_options()) {
    if (IsSetting(*option)) known.insert(VariableOf(*option));
  }
  known.insert(std::string(kPrefix) + "CONFIG");
  std::vector<std::string> unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with(kPrefix) && !known.contains(name) &&
        !IsOfKubernetes(name)) {
      unknown.emplace_back(name);
    }
  }
  return unknown;
}

std::string ToText(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    // What has no value has no line that a file could have.
    text += setting.value.empty()
                ? fmt::format("# {} is not set\n", setting.name)
                : fmt::format("{} = {}  # {}\n", setting.name, Quoted(setting),
                              setting.source);
  }
  return text;
}

std::string ToLine(const std::vector<Setting>& settings) {
  std::string line;
  for (const Setting& setting : settings) {
    if (setting.value.empty()) continue;
    line += fmt::format("{}{}={} ({})", line.empty() ? "" : ", ", setting.name,
                        setting.value, setting.source);
  }
  return line;
}

bool LooksLikeSecret(std::string_view value) {
  constexpr size_t kShortest = 32;
  if (value.find('\n') != std::string_view::npos ||
      value.find("-----BEGIN") != std::string_view::npos) {
    return true;
  }
  // Base64 or hexadecimal: file names that long have a slash in front or a dot.
  return value.size() >= kShortest && value.front() != '/' &&
         std::all_of(value.begin(), value.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  std::string_view("+/=_-").find(c) != std::string_view::npos;
         });
}

}  // namespace quantd
