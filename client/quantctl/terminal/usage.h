// Formats the help pages of quantctl, and suggests corrections of misspelt
// words on the command line.
#ifndef QUANTD_CLIENT_QUANTCTL_TERMINAL_USAGE_H_
#define QUANTD_CLIENT_QUANTCTL_TERMINAL_USAGE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::quantctl {

// Formats help pages to the width of the terminal. An option's default and
// environment variable follow its description.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option,
                          bool positional) const override;

 private:
  std::string Entry(std::string names, const std::string& about) const;
  size_t width_;
  size_t column_;  // column at which descriptions begin
};

// The candidate that differs from `word` in the fewest letters. "" if all
// differ in more than a third of the letters of `word`, and in more than one.
std::string Closest(std::string_view word,
                    const std::vector<std::string>& candidates);

// Describes the first unknown command or option and a similar known one: "there
// is no command 'quantise'; did you mean 'quantize'?". "" if all are known.
std::string Misspelt(const CLI::App& app,
                     const std::vector<std::string>& words);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TERMINAL_USAGE_H_
