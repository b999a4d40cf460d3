// What the definitions of a command line say, for what is generated from them.
#ifndef QUANTD_CLIENT_QUANTCTL_MANUAL_COMMAND_LINE_H_
#define QUANTD_CLIENT_QUANTCTL_MANUAL_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quantd::quantctl {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app);
// With and without dashes; that of --help, too.
std::vector<const CLI::Option*> FlagsOf(const CLI::App& app);
std::vector<const CLI::Option*> PositionalsOf(const CLI::App& app);

// "-o", "--out", "--output".
std::vector<std::string> NamesOf(const CLI::Option& option);
// "FORMAT"; empty: it takes no value.
std::string ValueOf(const CLI::Option& option);
// The words that it takes, where its description ends with them: "... : a, b or
// c". Empty: anything.
std::vector<std::string> WordsOf(const CLI::Option& option);
// Whether its value is a file or a directory.
bool TakesPath(const CLI::Option& option);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MANUAL_COMMAND_LINE_H_
