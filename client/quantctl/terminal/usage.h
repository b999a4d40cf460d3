// How quantctl explains itself: the pages of --help, and what a misspelt word
// of the command line may have meant.
#ifndef QUANTD_CLIENT_QUANTCTL_TERMINAL_USAGE_H_
#define QUANTD_CLIENT_QUANTCTL_TERMINAL_USAGE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::quantctl {

// Pages that are as wide as the terminal. An option's default and its variable
// of the environment stand behind its description.
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
  size_t column_;  // where descriptions begin
};

// The candidate that differs from `word` in the fewest letters, and in no more
// than a third of them; empty: none.
std::string Closest(std::string_view word,
                    const std::vector<std::string>& candidates);

// The first unknown command or option, and what may have been meant by it:
// "there is no command 'quantise'; did you mean 'quantize'?". Empty: all are
// known.
std::string Misspelt(const CLI::App& app,
                     const std::vector<std::string>& words);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TERMINAL_USAGE_H_
