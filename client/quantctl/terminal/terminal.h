// Formats text and help pages for the terminal, by its width and colours, and
// suggests corrections of misspelt words on the command line. Holds the exit
// codes.
#ifndef QUANTD_CLIENT_QUANTCTL_TERMINAL_TERMINAL_H_
#define QUANTD_CLIENT_QUANTCTL_TERMINAL_TERMINAL_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::quantctl {

// The width of the terminal of `file` in columns. If it is not a terminal: the
// variable COLUMNS, or 80.
size_t WidthOf(FILE* file);

// Wraps `text` to lines of at most `width` columns. All lines but the first
// begin with `indent` spaces, and the first is shorter by as many columns. Long
// words are not broken.
std::string Wrapped(std::string_view text, size_t indent, size_t width);

enum class Colour { kBold = 1, kRed = 31, kGreen = 32, kYellow = 33 };
// Returns the text in that colour, or unchanged if `file` is not a terminal or
// NO_COLOR is set.
std::string Painted(FILE* file, Colour colour, std::string_view text);

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

// The exit codes. Scripts depend on them, so they must never change.
enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kBadInput = 3,
  kUnreachable = 4,
  kRefused = 5,
  kPartly = 6,
  kCannotWrite = 7,
  kFindings = 8,
};

struct ExitMeaning {
  ExitCode code;
  const char* meaning;
};
inline constexpr ExitMeaning kExitCodes[] = {
    {kOk, "success"},
    {kInternal, "internal error"},
    {kUsage, "invalid command line: a command, an option or its value"},
    {kBadInput,
     "the input cannot be read, is malformed, or has nothing to process"},
    {kUnreachable,
     "there is no server, or it was busy or did not reply before the deadline"},
    {kRefused, "the server refused the request"},
    {kPartly,
     "some tensors failed, so that no file is written, or some calls of bench "
     "failed"},
    {kCannotWrite, "the output cannot be written"},
    {kFindings,
     "lint, verify, repair or compare found faults, different bytes or too "
     "large errors, or nothing to examine"},
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TERMINAL_TERMINAL_H_
