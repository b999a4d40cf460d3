#include "client/quantctl/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// The Levenshtein distance: the number of letters to add, remove or change.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t change = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({change, row[k] + 1, row[k + 1] + 1});
    }
  }
  return row.back();
}

std::string NoSuch(std::string_view kind, const std::string& word,
                   const std::vector<std::string>& candidates) {
  const std::string guess = Closest(word, candidates);
  return fmt::format(
      "there is no {} '{}'{}", kind, word,
      guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
}

}  // namespace

size_t WidthOf(FILE* file) {
  winsize size = {};
  int width = 0;
  if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0) width = size.ws_col;
  const char* const said = std::getenv("COLUMNS");
  if (width == 0 && said != nullptr) width = std::atoi(said);
  return static_cast<size_t>(width > 0 ? std::max(width, 20) : 80);
}

std::string Wrapped(std::string_view text, size_t indent, size_t width) {
  std::string wrapped;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

std::string Painted(FILE* file, Colour colour, std::string_view text) {
  const char* const no = std::getenv("NO_COLOR");
  const bool plain = no != nullptr && *no != '\0';
  if (plain || isatty(fileno(file)) != 1) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(colour), text);
}

std::string Closest(std::string_view word,
                    const std::vector<std::string>& candidates) {
  std::string closest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& c : candidates) {
    const size_t distance = Distance(word, c);
    if (distance >= least) continue;
    least = distance;
    closest = c;
  }
  return closest;
}

std::string Misspelt(const CLI::App& app,
                     const std::vector<std::string>& words) {
  std::vector<std::string> commands;
  for (const CLI::App* one :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(one->get_name());
  }
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    if (word == "--") break;
    if (command == &app && !word.empty() && word.front() != '-') {
      if (std::ranges::find(commands, word) == commands.end()) {
        return NoSuch("command", word, commands);
      }
      command = app.get_subcommand(word);
      continue;
    }
    if (!word.starts_with("--")) continue;
    const std::string flag = word.substr(0, word.find('='));
    if (command->get_option_no_throw(flag) != nullptr) continue;
    std::vector<std::string> flags;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        flags.push_back("--" + name);
      }
    }
    return NoSuch("option", flag, flags);
  }
  return "";
}

HelpFormatter::HelpFormatter()
    : width_(WidthOf(stdout)), column_(width_ < 80 ? 14 : 30) {
  label("Positionals", "Arguments");
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) {
    text.erase(at, 1);
  }
  return text;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return Wrapped(app->get_description() + ".", 0, width_) + "\n\n";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string) const {
  const bool whole = app->get_parent() == nullptr;
  std::string text =
      whole ? "Usage: quantctl COMMAND" : "Usage: quantctl " + app->get_name();
  for (const CLI::Option* o : app->get_options(
           [](const CLI::Option* o) { return o->get_positional(); })) {
    const std::string name = o->get_type_name();
    text += o->get_required() ? " " + name : " [" + name + "]";
  }
  return Wrapped(text + " [options]", 0, width_) + "\n";
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return Entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_option(const CLI::Option* option,
                                       bool positional) const {
  std::string type = option->get_type_name();
  // Removes limits such as ":INT in [1 - 64]".
  type.resize(std::min(type.find(':'), type.size()));
  if (type == "FLOAT" || type == "INT" || type == "UINT") type = "NUMBER";
  const bool value = !positional && !type.empty();
  // Shows only the first long name. The others are older names.
  std::string names = positional ? type : "--" + option->get_lnames().front();
  if (!positional && !option->get_snames().empty()) {
    names = fmt::format("-{}, {}", option->get_snames().front(), names);
  }
  if (value) names += " " + type;
  if (value &&
      option->get_expected_max() == CLI::detail::expected_max_vector_size) {
    names += " ...";
  }
  std::string about = option->get_description();
  if (!option->get_default_str().empty()) {
    about += fmt::format(" (default {})", option->get_default_str());
  }
  if (!option->get_envname().empty()) {
    about += fmt::format(" [${}]", option->get_envname());
  }
  return Entry(std::move(names), about);
}

// An entry of a help page. Names that are too long for their column get a
// separate line.
std::string HelpFormatter::Entry(std::string names,
                                 const std::string& about) const {
  names = "  " + names;
  if (names.size() + 2 > column_) {
    names += "\n";
    names.append(column_, ' ');
  } else {
    names.resize(column_, ' ');
  }
  return names + Wrapped(about, column_, width_) + "\n";
}

}  // namespace quantd::quantctl
