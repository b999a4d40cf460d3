#include "client/quantctl/manual/command_line.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace quantd::quantctl {
namespace {

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
           c == '-' || c == '.' || c == '@' || c == '+' || c == ':';
  });
}

}  // namespace

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> FlagsOf(const CLI::App& app) {
  // One without a group is hidden from --help, too.
  return app.get_options([](const CLI::Option* o) {
    return !o->get_positional() && !o->get_group().empty();
  });
}

std::vector<const CLI::Option*> PositionalsOf(const CLI::App& app) {
  return app.get_options(
      [](const CLI::Option* o) { return o->get_positional(); });
}

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

std::string ValueOf(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  // What is behind a colon is how it is checked.
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  return name.empty() ? "VALUE" : name;
}

std::vector<std::string> WordsOf(const CLI::Option& option) {
  const std::string& text = option.get_description();
  const size_t colon = text.rfind(": ");
  if (colon == std::string::npos) return {};
  std::string_view rest = std::string_view(text).substr(colon + 2);
  std::vector<std::string> words;
  while (!rest.empty()) {
    size_t end = rest.find(", ");
    size_t next = end + 2;
    if (end == std::string_view::npos) {
      end = rest.find(" or ");
      next = end + 4;
    }
    const std::string_view word = rest.substr(0, end);
    if (!IsWord(word)) return {};
    words.emplace_back(word);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : next);
  }
  return words.size() < 2 ? std::vector<std::string>() : words;
}

bool TakesPath(const CLI::Option& option) {
  const std::string value = ValueOf(option);
  return value.starts_with("FILE") || value == "MODEL" || value == "OTHER" ||
         value == "DIR" || value == "IN" || value == "OUT";
}

}  // namespace quantd::quantctl
