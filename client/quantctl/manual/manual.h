// The manual page and the completions of shells, made from the definitions of
// the command line, so that they name whatever it takes.
#ifndef QUANTD_CLIENT_QUANTCTL_MANUAL_MANUAL_H_
#define QUANTD_CLIENT_QUANTCTL_MANUAL_MANUAL_H_

#include <CLI/CLI.hpp>
#include <string>

namespace quantd::quantctl {

std::string ManPage(const CLI::App& app, const std::string& version);
std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MANUAL_MANUAL_H_
