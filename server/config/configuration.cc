#include "server/config/configuration.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
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
// The setting whose value is a list, which a file may write as one.
constexpr std::string_view kList = "device";
constexpr char kTwice[] = "given more than once";

absl::Status Refuse(std::string_view where, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", where, why));
}

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

class Layers {
 public:
  Layers(CLI::App* app, const std::string& actions) : app_(*app) {
    for (CLI::Option* option : app->get_options()) {
      const std::string name = NameOf(*option);
      if (!name.empty() && name != "help" && name != "version" &&
          option->get_group() != actions) {
        settings_.push_back(option);
        if (option->count() > 0) sources_[option] = "flag";
      }
    }
  }

  absl::Status ReadVariable(CLI::Option* option) {
    const std::string variable = VariableOf(*option);
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0' || option->count() > 0) {
      return absl::OkStatus();
    }
    sources_[option] = "environment";
    return Set(option, value, variable);
  }
  absl::Status ReadEnvironment() {
    for (CLI::Option* option : settings_) {
      if (auto s = ReadVariable(option); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  absl::Status ReadFile(const std::string& path);
  Configuration InEffect(const std::string& file_flag) const;

 private:
  static absl::Status Set(CLI::Option* option, std::string value,
                          const std::string& where);
  absl::Status ReadItem(const CLI::ConfigItem& item, const std::string& what);

  CLI::App& app_;
  std::vector<CLI::Option*> settings_;
  std::map<const CLI::Option*, std::string> sources_;
};

absl::Status Layers::Set(CLI::Option* option, std::string value,
                         const std::string& where) {
  if (IsFlag(*option)) {
    if (value == "1") value = "true";
    if (value == "0") value = "false";
    if (value != "true" && value != "false") {
      return Refuse(where, "expected true or false");
    }
  }
  try {
    option->add_result(value);
    option->run_callback();
  } catch (const CLI::Error& e) {
    return Refuse(where, e.what());
  }
  return absl::OkStatus();
}

absl::Status Layers::ReadFile(const std::string& path) {
  const std::string what = fmt::format("--config {}", path);
  const auto text = security::ReadSmallFile(what, path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  if (const int line = LineOfBadQuotes(*text); line > 0) {
    return Refuse(fmt::format("{}: line {}", what, line),
                  "a quote without its end, or with a # in it, which cannot be "
                  "read from a file; use the flag or the variable for such a "
                  "value");
  }
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream stream(*text);
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const CLI::Error& e) {
    return Refuse(what + ": cannot be understood", e.what());
  }
  std::set<std::string> seen;
  for (const CLI::ConfigItem& item : items) {
    const bool first = seen.insert(item.name).second;
    auto s = first || !item.parents.empty()
                 ? ReadItem(item, what)
                 : Refuse(what + ": " + item.name, kTwice);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Layers::ReadItem(const CLI::ConfigItem& item,
                              const std::string& what) {
  if (!item.parents.empty()) {
    return Refuse(fmt::format("{}: {}", what, fmt::join(item.parents, ".")),
                  "there are no sections and no keys with dots");
  }
  const std::string where = what + ": " + item.name;
  CLI::Option* const option = app_.get_option_no_throw("--" + item.name);
  if (std::ranges::find(settings_, option) == settings_.end()) {
    return Refuse(where, "no such setting; quantd --help lists them");
  }
  // Two lines one after the other with the same key come as one item.
  if (item.inputs.size() > 1 && item.name != kList) {
    return Refuse(where, kTwice);
  }
  if (item.inputs.empty() || item.inputs.front().empty()) {
    return Refuse(where, "has no value");
  }
  // An array goes on over lines, their comments and all, to the file's end if
  // need be.
  const std::string value = Joined(item.inputs);
  if (value.find('#') != std::string::npos ||
      std::ranges::any_of(value, absl::ascii_iscntrl)) {
    return Refuse(where,
                  "a # or a control character in its value; an array must end "
                  "in its own line");
  }
  // What stands in the file must be right, even where it does not count.
  const std::vector<std::string> above = option->results();
  option->clear();
  auto s = Set(option, value, where);
  if (above.empty()) {
    sources_[option] = "file";
  } else if (s.ok()) {
    option->clear();
    s = Set(option, Joined(above), item.name);
  }
  return s;
}

Configuration Layers::InEffect(const std::string& file_flag) const {
  Configuration configuration;
  std::set<std::string, std::less<>> known = {
      "QUANTD_SERVER", VariableOf(*app_.get_option(file_flag))};
  for (const CLI::Option* option : settings_) {
    known.insert(VariableOf(*option));
    Setting setting{NameOf(*option), option->get_default_str(), "default"};
    if (const auto source = sources_.find(option); source != sources_.end()) {
      setting.value = Joined(option->results());
      setting.source = source->second;
    } else if (IsFlag(*option)) {
      setting.value = "false";
    }
    if (LooksLikeSecret(setting.value)) setting.value = "***";
    configuration.settings.push_back(std::move(setting));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with(kPrefix) && !known.contains(name) &&
        !IsOfKubernetes(name)) {
      configuration.unknown_environment.emplace_back(name);
    }
  }
  return configuration;
}

}  // namespace

absl::StatusOr<Configuration> ReadLayers(CLI::App* app,
                                         const std::string& actions,
                                         const std::string& file_flag) {
  Layers layers(app, actions);
  CLI::Option* const file = app->get_option(file_flag);
  auto s = layers.ReadVariable(file);
  if (s.ok()) s = layers.ReadEnvironment();
  if (s.ok() && file->count() > 0) {
    s = layers.ReadFile(file->as<std::string>());
  }
  if (!s.ok()) return s;
  return layers.InEffect(file_flag);
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
