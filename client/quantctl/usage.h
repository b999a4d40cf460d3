// What a misspelt word of the command line may have meant.
#ifndef QUANTD_CLIENT_QUANTCTL_USAGE_H_
#define QUANTD_CLIENT_QUANTCTL_USAGE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::quantctl {

// The candidate that differs from `word` in the fewest letters, and in no more
// than a third of them; empty: none.
std::string Closest(std::string_view word,
                    const std::vector<std::string>& candidates);

// "Did you mean '--format'?" for the first unknown command or flag; of a
// command also that there is none. Empty: there is nothing to say.
std::string Suggestion(const CLI::App& app, int argc, char** argv);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_USAGE_H_
