// ManPage.
#include "client/quantctl/manual/manual.h"

#include <iterator>
#include <map>
#include <string_view>

#include "client/quantctl/manual/command_line.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// Text as roff takes it.
std::string Roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

void PutOption(const CLI::Option& option, std::string* out) {
  std::string names;
  for (const std::string& name : NamesOf(option)) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", Roff(name));
  }
  const std::string value = ValueOf(option);
  if (option.get_positional()) {
    names = fmt::format("\\fI{}\\fR", Roff(value));
  } else if (!value.empty()) {
    names += fmt::format(" \\fI{}\\fR", Roff(value));
  }
  fmt::format_to(std::back_inserter(*out), ".TP\n{}\n{}.", names,
                 Roff(option.get_description()));
  if (const std::string standard = option.get_default_str();
      !standard.empty()) {
    fmt::format_to(std::back_inserter(*out), " Default: {}.", Roff(standard));
  }
  if (!option.get_envname().empty()) {
    fmt::format_to(std::back_inserter(*out), " Environment: {}.",
                   Roff(option.get_envname()));
  }
  *out += "\n";
}

std::string Synopsis(const CLI::App& app, const CLI::App& command) {
  std::string text = fmt::format("\\fB{} {}\\fR", Roff(app.get_name()),
                                 Roff(command.get_name()));
  for (const CLI::Option* o : PositionalsOf(command)) {
    const std::string value = Roff(ValueOf(*o));
    text += o->get_required() ? fmt::format(" \\fI{}\\fR", value)
                              : fmt::format(" [\\fI{}\\fR]", value);
  }
  return text + " [\\fIoptions\\fR]";
}

}  // namespace

std::string ManPage(const CLI::App& app, const std::string& version) {
  std::string out = fmt::format(
      ".\\\" Made by {0} from its command line.\n"
      ".TH {1} 1 \"\" \"{0} {2}\"\n.SH NAME\n{0} \\- {3}\n.SH SYNOPSIS\n",
      app.get_name(), "QUANTCTL", version, Roff(app.get_description()));
  std::map<std::string, std::string> variables;
  for (const CLI::App* command : CommandsOf(app)) {
    out += Synopsis(app, *command) + "\n.br\n";
  }
  out += ".SH OPTIONS\n";
  for (const CLI::Option* o : FlagsOf(app)) PutOption(*o, &out);
  out += ".SH COMMANDS\n";
  for (const CLI::App* command : CommandsOf(app)) {
    fmt::format_to(std::back_inserter(out), ".SS {}\n{}.\n.PP\n{}\n",
                   Roff(command->get_name()), Roff(command->get_description()),
                   Synopsis(app, *command));
    for (const CLI::Option* o : PositionalsOf(*command)) PutOption(*o, &out);
    for (const CLI::Option* o : FlagsOf(*command)) {
      PutOption(*o, &out);
      if (!o->get_envname().empty()) {
        variables[o->get_envname()] = o->get_description();
      }
    }
  }
  out += ".SH ENVIRONMENT\n";
  for (const auto& [name, what] : variables) {
    fmt::format_to(std::back_inserter(out), ".TP\n.B {}\n{}.\n", Roff(name),
                   Roff(what));
  }
  fmt::format_to(std::back_inserter(out), ".SH NOTES\n.nf\n{}\n.fi\n",
                 Roff(app.get_footer()));
  return out;
}

}  // namespace quantd::quantctl
