// Chooses the server of a command from its flags, the environment and defaults.
#ifndef QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
#define QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_

#include <CLI/CLI.hpp>
#include <cstdint>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

void AddServer(CLI::App* app, Options* o);

// Whether 127.0.0.1 refuses connections to `port`. False if unknown.
bool Refuses(uint16_t port);

// Sets the server of a command if none is named: "local" if --transport is
// local, or if no transport is named and the default address refuses
// connections, with a message on stderr. Otherwise the default address.
void SettleServer(Options* o);

// Sets the token from the environment and adds missing ports. INVALID_ARGUMENT
// if a renamed variable is still set.
absl::Status SettleConnection(Options* o);

// INVALID_ARGUMENT if the named transport cannot reach the named server.
absl::Status CheckTransport(const Options& o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
