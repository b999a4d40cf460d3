// BashCompletion, ZshCompletion.
#include <iterator>
#include <string_view>

#include "client/quantctl/manual/command_line.h"
#include "client/quantctl/manual/manual.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

std::string Flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : FlagsOf(app)) {
    for (std::string& name : NamesOf(*o)) names.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(names, " "));
}

// Between single quotes of a shell, in a description of _arguments.
std::string Quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string ZshAction(const CLI::Option& option) {
  const auto words = WordsOf(option);
  if (!words.empty()) return fmt::format("({})", fmt::join(words, " "));
  return TakesPath(option) ? "_files" : "";
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::string out =
      "# Made by quantctl from its command line.\n"
      "_quantctl() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} "
      "before=${COMP_WORDS[COMP_CWORD-1]}"
      "\n"
      "  local command=${COMP_WORDS[1]} flags='' values=''\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  std::vector<std::string> commands;
  for (const CLI::App* c : CommandsOf(app)) commands.push_back(c->get_name());
  fmt::format_to(std::back_inserter(out),
                 "    mapfile -t COMPREPLY < <(compgen -W '{} {}' -- \"$word\")"
                 "\n    return\n  fi\n  case $command in\n",
                 fmt::join(commands, " "), Flags(app));
  for (const CLI::App* command : CommandsOf(app)) {
    fmt::format_to(std::back_inserter(out),
                   "    {})\n      flags='{}'\n      case $before in\n",
                   command->get_name(), Flags(*command));
    for (const CLI::Option* o : FlagsOf(*command)) {
      const auto words = WordsOf(*o);
      if (words.empty() || ValueOf(*o).empty()) continue;
      fmt::format_to(std::back_inserter(out), "        {}) values='{}' ;;\n",
                     fmt::join(NamesOf(*o), "|"), fmt::join(words, " "));
    }
    for (const CLI::Option* o : PositionalsOf(*command)) {
      const auto words = WordsOf(*o);
      if (words.empty()) continue;
      fmt::format_to(std::back_inserter(out), "        {}) values='{}' ;;\n",
                     command->get_name(), fmt::join(words, " "));
    }
    out += "      esac ;;\n";
  }
  out +=
      "  esac\n"
      "  if [[ $word == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$word\")\n"
      "  elif [ -n \"$values\" ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _quantctl quantctl\n";
  return out;
}

std::string ZshCompletion(const CLI::App& app) {
  std::string out =
      "#compdef quantctl\n"
      "# Made by quantctl from its command line.\n"
      "_quantctl() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CLI::App* command : CommandsOf(app)) {
    fmt::format_to(std::back_inserter(out), "    '{}:{}'\n",
                   command->get_name(), Quoted(command->get_description()));
  }
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    _arguments \\\n";
  const auto put = [&](const CLI::Option& o) {
    const std::string value = ValueOf(o);
    for (const std::string& name : NamesOf(o)) {
      fmt::format_to(std::back_inserter(out), "      '{}{}[{}]{}' \\\n",
                     o.get_items_expected_max() > 1 ? "*" : "", name,
                     Quoted(o.get_description()),
                     value.empty()
                         ? ""
                         : fmt::format(":{}:{}", Quoted(value), ZshAction(o)));
    }
  };
  for (const CLI::Option* o : FlagsOf(app)) put(*o);
  out +=
      "      && return\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const CLI::App* command : CommandsOf(app)) {
    fmt::format_to(std::back_inserter(out), "    {})\n      _arguments \\\n",
                   command->get_name());
    for (const CLI::Option* o : FlagsOf(*command)) put(*o);
    for (const CLI::Option* o : PositionalsOf(*command)) {
      fmt::format_to(std::back_inserter(out), "      ':{}:{}' \\\n",
                     Quoted(ValueOf(*o)), ZshAction(*o));
    }
    out += "      && return ;;\n";
  }
  out +=
      "  esac\n"
      "}\n"
      "_quantctl \"$@\"\n";
  return out;
}

}  // namespace quantd::quantctl
