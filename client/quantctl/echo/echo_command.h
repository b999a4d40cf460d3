// `quantctl echo-server`: the other side of `quantctl bench --echo`.
#ifndef QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_COMMAND_H_
#define QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

void AddEchoServer(CLI::App* app, std::function<int(const Options&)>* run);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_COMMAND_H_
