// The environment and the file, the layers of configuration that the command
// line overrides.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/net/pem.h"
#include "server/config/options.h"

namespace quantd {
namespace {

constexpr std::string_view kPrefix = "QUANTD_";

absl::Status Refuse(std::string_view where, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", where, why));
}

// Variables for the option's name and its former names.
std::vector<std::string> VariablesOf(const CLI::Option& option) {
  std::vector<std::string> variables;
  for (std::string name : option.get_lnames()) {
    std::replace(name.begin(), name.end(), '-', '_');
    variables.push_back(std::string(kPrefix) + absl::AsciiStrToUpper(name));
  }
  return variables;
}

bool IsFlag(const CLI::Option& option) {
  return option.get_expected_max() == 0;
}

std::string Joined(const std::vector<std::string>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

// Whether Kubernetes sets the variable (QUANTD_SERVICE_HOST,
// QUANTD_SERVICE_PORT..., QUANTD_PORT, QUANTD_PORT_50151_TCP..., also for
// services like quantd-metrics), or quantctl reads it.
bool IsOfOthers(std::string_view name) {
  const size_t port = name.rfind("_PORT");
  const std::string_view after =
      port == std::string_view::npos ? "none" : name.substr(port + 5);
  return name.starts_with("QUANTD_CLIENT_") ||
         name.find("_SERVICE_") != std::string_view::npos || after.empty() ||
         (after.size() > 1 && absl::ascii_isdigit(after[1]));
}

// Parses "KEY = VALUE", where a value is bare or quoted and a comment may
// follow. Returns what is wrong with the line, or an empty text.
std::string ReadLine(absl::string_view line, std::string* key,
                     std::string* value) {
  const size_t equals = line.find('=');
  *key = std::string(absl::StripAsciiWhitespace(line.substr(0, equals)));
  if (absl::StartsWith(line, "[")) return "sections are not supported";
  if (equals == absl::string_view::npos) return "has no value";
  line = absl::StripLeadingAsciiWhitespace(line.substr(equals + 1));
  const bool quoted =
      absl::StartsWith(line, "\"") || absl::StartsWith(line, "'");
  if (quoted && line.find(line.front(), 1) == absl::string_view::npos) {
    return "a quote without its end";
  }
  const size_t end =
      std::min(line.size(), quoted ? line.find(line.front(), 1) + 1
                                   : line.find_first_of(" \t#\"'"));
  *value = std::string(line.substr(quoted, end - 2 * quoted));
  if (value->empty()) return "has no value";
  line = absl::StripLeadingAsciiWhitespace(line.substr(end));
  if (!line.empty() && !absl::StartsWith(line, "#")) {
    return "more than one value; a value with blanks needs quotes";
  }
  return std::ranges::any_of(*value, absl::ascii_iscntrl)
             ? "a control character in its value"
             : "";
}

std::string Quoted(const Setting& setting) {
  const std::string& v = setting.value;
  const bool number = v.find_first_not_of("0123456789") == std::string::npos;
  if (number || v == "true" || v == "false") return v;
  const char quote = v.find('"') == std::string::npos ? '"' : '\'';
  return quote + v + quote;
}

class Layers {
 public:
  Layers(CLI::App* app, const std::string& actions) : app_(*app) {
    for (CLI::Option* option : app->get_options()) {
      const std::string name = option->get_single_name();
      if (!name.empty() && name != "help" && name != "version" &&
          option->get_group() != actions) {
        settings_.push_back(option);
        if (option->count() > 0) sources_[option] = "flag";
      }
    }
  }

  absl::Status ReadVariable(CLI::Option* option) {
    for (const std::string& variable : VariablesOf(*option)) {
      const char* const value = std::getenv(variable.c_str());
      if (value == nullptr || *value == '\0' || option->count() > 0) continue;
      sources_[option] = "environment";
      if (auto s = Set(option, value, variable); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  absl::Status ReadEnvironment() {
    absl::Status s;
    for (CLI::Option* option : settings_) s.Update(ReadVariable(option));
    return s;
  }
  absl::Status ReadFile(const std::string& path) {
    const std::string what = fmt::format("--config {}", path);
    const auto text = security::ReadSmallFile(what, path);
    if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
    std::set<std::string> seen;
    int number = 0;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      ++number;
      line = absl::StripAsciiWhitespace(line);
      if (line.empty() || absl::StartsWith(line, "#")) continue;
      std::string key;
      std::string value;
      const std::string wrong = ReadLine(line, &key, &value);
      const std::string where = fmt::format("{}: {}", what, key);
      if (!wrong.empty()) {
        return Refuse(fmt::format("{}: line {}: {}", what, number, key), wrong);
      }
      if (!seen.insert(key).second) {
        return Refuse(where, "given more than once");
      }
      CLI::Option* const option = app_.get_option_no_throw("--" + key);
      if (std::ranges::find(settings_, option) == settings_.end()) {
        return Refuse(where, "no such setting; quantd --help lists them");
      }
      if (auto s = SetBelow(option, value, where); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void Tell(const std::string& file_variable, CommandLine* command) const {
    std::set<std::string, std::less<>> known = {"QUANTD_SERVER", file_variable};
    for (const CLI::Option* option : settings_) {
      for (std::string& name : VariablesOf(*option)) {
        known.insert(std::move(name));
      }
      Setting setting{option->get_single_name(), option->get_default_str(),
                      "default"};
      if (const auto source = sources_.find(option); source != sources_.end()) {
        setting.value = Joined(option->results());
        setting.source = source->second;
      } else if (IsFlag(*option)) {
        setting.value = "false";
      }
      if (LooksLikeSecret(setting.value)) setting.value = "***";
      command->settings.push_back(std::move(setting));
    }
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::string_view name = text.substr(0, text.find('='));
      if (name.starts_with(kPrefix) && !known.contains(name) &&
          !IsOfOthers(name)) {
        command->unknown_environment.emplace_back(name);
      }
    }
  }

 private:
  static absl::Status Set(CLI::Option* option, std::string value,
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

  // A value must be valid even if a higher layer overrides it.
  absl::Status SetBelow(CLI::Option* option, const std::string& value,
                        const std::string& where) {
    const std::vector<std::string> above = option->results();
    option->clear();
    auto s = Set(option, value, where);
    if (above.empty()) {
      sources_[option] = "file";
    } else if (s.ok()) {
      option->clear();
      s = Set(option, Joined(above), where);
    }
    return s;
  }

  CLI::App& app_;
  std::vector<CLI::Option*> settings_;
  std::map<const CLI::Option*, std::string> sources_;
};

}  // namespace

absl::Status ReadLayers(CLI::App* app, const std::string& actions,
                        const std::string& file_flag, CommandLine* command) {
  Layers layers(app, actions);
  CLI::Option* const file = app->get_option(file_flag);
  auto s = layers.ReadVariable(file);
  if (s.ok()) s = layers.ReadEnvironment();
  if (s.ok() && file->count() > 0) {
    s = layers.ReadFile(file->as<std::string>());
  }
  if (s.ok()) layers.Tell(VariablesOf(*file).front(), command);
  return s;
}

std::string ToText(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    // A setting without a value cannot be written as a line of a file.
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
  // Looks for base64 or hexadecimal: a file name of that length would begin
  // with a slash or contain a dot.
  return value.size() >= kShortest && value.front() != '/' &&
         std::all_of(value.begin(), value.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  std::string_view("+/=_-").find(c) != std::string_view::npos;
         });
}

}  // namespace quantd
