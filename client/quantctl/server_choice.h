// Which server a command works with, and how: its flags, and what is done
// where nobody has named one.
#ifndef QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
#define QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_

#include <CLI/CLI.hpp>
#include <cstdint>

#include "client/quantctl/commands.h"

namespace quantd::quantctl {

void AddServer(CLI::App* app, Options* o);
// TLS and the token. Part of AddServer.
void AddCredentials(CLI::App* app, Options* o);
void AddDeadline(CLI::App* app, Options* o);

// Whether nothing listens at that port of 127.0.0.1. False where that cannot be
// known.
bool Refuses(uint16_t port);

// For a command for which no server is named: "local" where that is the way it
// is to go; or, saying so on stderr, where the default address refuses
// connections and any way will do.
void SettleServer(Options* o);

// Settles what flags leave to the environment and to defaults: the token, and
// the port of an address that has none. INVALID_ARGUMENT for a variable that
// has another name now.
absl::Status SettleConnection(Options* o);

// INVALID_ARGUMENT where the way that is named does not lead to the server.
absl::Status CheckTransport(const Options& o);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_SERVER_CHOICE_H_
