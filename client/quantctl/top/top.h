// `quantctl top`: what servers are doing, from their metrics pages.
#ifndef QUANTD_CLIENT_QUANTCTL_TOP_TOP_H_
#define QUANTD_CLIENT_QUANTCTL_TOP_TOP_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

void AddTop(CLI::App* app, Options* o, std::function<int(const Options&)>* run);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TOP_TOP_H_
